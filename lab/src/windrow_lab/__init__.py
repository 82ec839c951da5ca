"""The lab: the papers' figures, tables and worked examples, measured with this engine.

`experiments/` holds one file an experiment; `run` runs them as parallel tasks on Spark and says, claim by
claim, whether what the paper promises was seen.
"""
