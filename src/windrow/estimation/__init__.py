"""Statistics of incomplete answers: recall, missed results, fairness. They know nothing of policies."""
