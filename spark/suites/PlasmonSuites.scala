package org.apache.spark.shuffle.plasmon

import org.apache.spark.{ContextCleanerSuite, ShuffleNettySuite, ShuffleSuite}
import org.apache.spark.{SortShuffleSuite, SparkConf}
import org.apache.spark.rdd.{PairRDDFunctionsSuite, RDDSuite, SortingSuite}

/** Spark's own suites, whose configuration takes no system properties, with Plasmon's manager. */
object Plasmon {
  def configure(conf: SparkConf): Unit = {
    conf.set("spark.shuffle.manager", classOf[PlasmonShuffleManager].getName)
    conf.set("spark.shuffle.sort.io.plugin.class", classOf[PlasmonShuffleDataIO].getName)
  }
}

/** Spark's own is abstract. */
class SortManagerShuffleSuite extends ShuffleSuite

class PlasmonShuffleSuite extends ShuffleSuite {
  override def beforeAll(): Unit = {
    super.beforeAll()
    Plasmon.configure(conf)
  }
}

/** A class of its own in 3.5, abstract in 4.1. */
class SortManagerShuffleNettySuite extends ShuffleNettySuite

class PlasmonShuffleNettySuite extends ShuffleNettySuite {
  override def beforeAll(): Unit = {
    super.beforeAll()
    Plasmon.configure(conf)
  }
}

class PlasmonSortShuffleSuite extends SortShuffleSuite {
  override def beforeAll(): Unit = {
    super.beforeAll()
    Plasmon.configure(conf)
  }
}

/** Their context, which the tests share, is made of the configuration before the first test. */
class PlasmonPairRDDFunctionsSuite extends PairRDDFunctionsSuite {
  Plasmon.configure(conf)
}

class PlasmonSortingSuite extends SortingSuite {
  Plasmon.configure(conf)
}

class PlasmonRDDSuite extends RDDSuite {
  Plasmon.configure(conf)
}

/** Takes its manager as an argument and sets it in each configuration that it makes. */
class PlasmonContextCleanerSuite(override val shuffleManager: Class[_])
    extends ContextCleanerSuite {
  def this() = this(classOf[PlasmonShuffleManager])
  Plasmon.configure(conf)
}
