"""SQL expressions over Arrow arrays: parsing, typing, evaluation, and splitting predicates for the join.

`split_predicate` turns text into a `model.predicate.Predicate`. `evaluate` computes an expression on columns,
`join_columns` the number per row that indexes and kernels compare.
"""
