//! `plasmon spark`: the settings with which Apache Spark's shuffle goes through the store.

mod archive;
mod checks;
mod command_line;
mod installation;
mod jar;
mod settings;
mod store;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Parser;
use serde_json::json;

use crate::arguments::{Arguments, Shuffle, ShufflePool, Spark, SparkSubmit};
use crate::failure::usage;
use crate::output::Output;

use self::command_line::CommandLine;
use self::installation::{defaults, spark_submit};
use self::jar::{PACKAGE, jar};
use super::check::report;

/// Runs one of the commands.
pub(super) fn run(arguments: &Arguments, command: &Spark, output: &Output) -> Result<()> {
    match command {
        Spark::Jar => {
            let jar = jar()?;
            output.value(&json!({ "jar": jar }), || jar.display().to_string())
        }
        Spark::Conf(shuffle) => {
            let own = settings::own(arguments.socket.as_deref(), shuffle)?;
            let conf = conf(own, &CommandLine::default(), &BTreeMap::new())?;
            output.value(&json!(conf), || lines(&conf))
        }
        Spark::Submit(submit) => run_submit(arguments.socket.as_deref(), submit),
        Spark::Doctor(doctor) => report(&checks::checks(arguments, doctor), output),
    }
}

/// All settings that Spark needs, beside those that were asked for.
fn conf(
    mut conf: BTreeMap<&'static str, String>,
    line: &CommandLine,
    defaults: &BTreeMap<String, String>,
) -> Result<BTreeMap<&'static str, String>> {
    let jar = jar()?.display().to_string();
    if jar.contains(':') {
        bail!(
            "the path of the jar, {jar}, has a colon, which ends an entry of a class path: put \
             the jar elsewhere and name it with PLASMON_SPARK_JAR"
        );
    }
    conf.insert("spark.shuffle.manager", format!("{PACKAGE}.PlasmonShuffleManager"));
    conf.insert("spark.shuffle.sort.io.plugin.class", format!("{PACKAGE}.PlasmonShuffleDataIO"));
    conf.extend(line.class_paths(&jar, defaults));
    Ok(conf)
}

fn lines(conf: &BTreeMap<&str, String>) -> String {
    let lines: Vec<String> = conf.iter().map(|(key, value)| format!("{key} {value}")).collect();
    lines.join("\n")
}

/// Replaces this process by spark-submit, whose exit code is then that of the command.
fn run_submit(socket: Option<&Path>, submit: &SparkSubmit) -> Result<()> {
    let program = spark_submit()?;
    let line = CommandLine::parse(&submit.arguments);
    let shuffle = shuffle(&submit.shuffle, &line)?;
    let own = settings::own(socket, &shuffle)?;
    let mut command = Command::new(&program);
    for (key, value) in conf(own, &line, &defaults(&program, &line)?)? {
        command.arg("--conf").arg(format!("{key}={value}"));
    }
    let error = command.args(&line.rest).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

/// What was asked for before the options of spark-submit and among them; the latter count.
fn shuffle(before: &Shuffle, line: &CommandLine) -> Result<Shuffle> {
    let found = OwnOptions::try_parse_from(&line.own).map_err(|error| {
        let text = error.to_string();
        usage(text.trim_start_matches("error: ").lines().next().unwrap_or_default())
    })?;
    let among = found.shuffle;
    let shuffle = Shuffle {
        pool: among.pool.or_else(|| before.pool.clone()),
        copies: among.copies.or(before.copies),
        ack: among.ack.or(before.ack),
    };
    // Without this check, the value after `--pool` would be taken for the application's file.
    let value = line.application.as_deref().filter(|word| word.parse::<ShufflePool>().is_ok());
    match value.filter(|_| shuffle.pool.is_some()) {
        Some(value) => Err(usage(format!("write --pool={value}, with an equals sign")).into()),
        None => Ok(shuffle),
    }
}

/// The options of `submit` that stand among those of spark-submit.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct OwnOptions {
    #[command(flatten)]
    shuffle: Shuffle,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_are_lines_of_a_defaults_file() {
        let conf = BTreeMap::from([("spark.a", "1".to_owned()), ("spark.b", "x y".to_owned())]);
        assert_eq!(lines(&conf), "spark.a 1\nspark.b x y");
    }

    #[test]
    fn options_of_submit_count_wherever_they_stand() {
        let before = Shuffle { pool: Some(ShufflePool::Auto), copies: Some(1), ack: None };
        let given = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            shuffle(&before, &CommandLine::parse(&words)).map_err(|error| error.to_string())
        };
        assert_eq!(given("--master local app.py --pool=none"), Ok(before.clone()));
        let pool = |pool: &str| Some(pool.parse().unwrap());
        let found = given("--pool --copies=2 app.py").unwrap();
        assert_eq!((found.pool, found.copies), (pool("@spark"), Some(2)));
        assert_eq!(given("--pool=none app.py").unwrap().pool, pool("none"));
        for (line, said) in [
            ("--pool @x app.py", "--pool=@x"),
            ("--pool=x app.py", "is not auto, none or @PREFIX"),
            ("--copies 9 app.py", "9 is not in 0..=8"),
            ("--copies", "--copies"),
            ("--ack never app.py", "never"),
        ] {
            let refused = given(line).expect_err(line);
            assert!(refused.contains(said), "{refused}");
        }
    }
}
