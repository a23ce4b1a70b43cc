"""An event hub that lives in your own database, and a Spark data pipeline that drinks from it."""

__version__ = "0.1.0"
