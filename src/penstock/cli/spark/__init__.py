"""`penstock spark`: pipelines on Spark that are ready to run."""
