"""Many queries, one join (Shared): results are found once and routed to every query whose windows hold them.

queries -> groups that can share -> nested tiers of windows -> one join -> route -> a table per query
"""
