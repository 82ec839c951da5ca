"""SVG pictures, HTML pages without scripts or external files, and tables for terminals. Text from data or a
query is escaped here."""
