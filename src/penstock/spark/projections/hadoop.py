"""Files of Hadoop's, which is what Spark reads and writes: those few things that Spark's own readers and writers lack.

They take a session with a JVM; Spark Connect has none, and there they are done by Spark's writer, or left.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

_IS_CHECKED_AT_THE_END: Final = "fs.option.create.conditional.overwrite"
"""Has a store refuse what is complete if its name is taken by then; stores that do not know it pass it over."""


def create(spark: SparkSession, path: str, text: str) -> bool:
    """Create a file of one line in a folder that is there, and return whether it was made: none of its name was there.

    Of several that do so at once one is told that it was, on local disks, on HDFS, and on object stores that create
    a file only if there is none: those of Azure and Google, and S3 with Hadoop 3.4.2 or later. Elsewhere, and over
    Spark Connect, it is looked first and written then: several may be told so if they do it within a moment, and
    what the last of them has written is there, or both are.
    """
    if not hasattr(spark, "_jvm"):
        return _create_by_spark(spark, path, text)
    files, place = _opened(spark, path)
    if files.getUri().getScheme() == "file":
        java: Any = spark
        return _create_locally(java._jvm.java.io.File(files.makeQualified(place).toUri()).getPath(), text)
    return _create_by_hadoop(files, place, text)


def found(spark: SparkSession, pattern: str) -> list[str]:
    """Return the paths that there are of a pattern, sorted; over Spark Connect the pattern, which Spark takes too."""
    if not hasattr(spark, "_jvm"):
        return [pattern]
    files, place = _opened(spark, pattern)
    return sorted(each.getPath().toString() for each in files.globStatus(place) or ())


def remove(spark: SparkSession, path: str) -> None:
    """Remove a file or a folder if it is there and may be removed; it stays over Spark Connect."""
    if not hasattr(spark, "_jvm"):
        return
    from py4j.protocol import Py4JJavaError

    with suppress(Py4JJavaError):
        files, place = _opened(spark, path)
        files.delete(place, True)


def _opened(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the file system of a path, and the path as it knows it."""
    java: Any = spark
    place = java._jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(java._jsc.hadoopConfiguration()), place


def _create_locally(path: str, text: str) -> bool:
    # Hadoop looks first and creates then, where the system could do both in one.
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except FileExistsError:
        return False
    return True


def _create_by_hadoop(files: Any, place: Any, text: str) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        stream = files.createFile(place).recursive().overwrite(False).opt(_IS_CHECKED_AT_THE_END, True).build()
    except Py4JJavaError:
        if files.exists(place):
            return False
        raise
    try:
        stream.write(f"{text}\n".encode())
        stream.close()
    except Py4JJavaError:
        # There may be a file of ours without content: only what has some is another's.
        if files.exists(place) and files.getFileStatus(place).getLen() > 0:
            return False
        raise
    return True


def _create_by_spark(spark: SparkSession, path: str, text: str) -> bool:
    try:
        spark.createDataFrame([(text,)], "value string").coalesce(1).write.mode("error").text(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        return False
    return True
