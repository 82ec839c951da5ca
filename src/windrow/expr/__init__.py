"""SQL expressions over Arrow arrays: parsed, typed, evaluated, and taken apart for the join.

`split` turns a predicate's text into a `model.predicate.Predicate`; `evaluate` and `word_values` compute
its parts on columns. Functions of these names live in the files of the same names.
"""
