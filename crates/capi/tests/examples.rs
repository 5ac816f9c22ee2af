//! The header agrees with the library, and C and C++ programs run against a real daemon.

#![expect(clippy::unwrap_used, reason = "this is a test, also outside of #[test]")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use plasmon_client::{Code, Level, ObjectState, Policy, Standing, tag};
use plasmon_testkit::Etcd;

fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where this workspace's libraries and programs lie, after they were built.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| plasmon_testkit::build(&["plasmon-capi", "plasmon-daemon"]))
}

/// How a program is linked.
#[derive(Clone, Copy, Debug)]
enum Linking {
    Shared,
    Static,
}

/// Compiles a C or C++ program with every warning an error.
fn compile(source: &str, linking: Linking, into: &Path) -> PathBuf {
    let libraries = built();
    let program = into.join("program");
    let cpp = source.ends_with(".cpp");
    let mut compiler = Command::new(if cpp { "c++" } else { "cc" });
    compiler.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-g"]);
    compiler.arg(if cpp { "-std=c++17" } else { "-std=c11" });
    compiler.args(["-D_POSIX_C_SOURCE=200809L", "-pthread"]);
    // Such as "-fsanitize=address": `scripts/sanitize.sh`.
    compiler.args(std::env::var("PLASMON_TEST_CFLAGS").unwrap_or_default().split_whitespace());
    compiler.arg("-I").arg(crate_path("include")).arg(crate_path(source)).arg("-o").arg(&program);
    match linking {
        Linking::Shared => {
            compiler.arg(libraries.join("libplasmon.so"));
            compiler.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        Linking::Static => {
            compiler.arg(libraries.join("libplasmon.a")).args(["-ldl", "-lm"]);
        }
    }
    let output = compiler.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source} does not compile:\n{errors}");
    program
}

/// Compiles and runs a program that connects to the store of this user, for which it has a
/// directory of its own.
fn runs(source: &str, linking: Linking) {
    let directory = tempfile::Builder::new().prefix("plasmon-test-").tempdir().unwrap();
    let program = compile(source, linking, directory.path());
    let mut program = Command::new(program);
    program.env("XDG_RUNTIME_DIR", directory.path());
    program.env_remove("PLASMON_SOCKET");
    program.env("PLASMON_DAEMON", built().join("plasmond"));
    program.env("PLASMON_CAPACITY_BYTES", "256m");
    program.env("PLASMON_LINGER_MS", "100");
    succeeds(source, &mut program);
}

fn succeeds(source: &str, program: &mut Command) {
    let output = program.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source} ended with {}:\n{errors}", output.status);
    assert!(String::from_utf8_lossy(&output.stdout).ends_with(": ok\n"), "{source}:\n{errors}");
}

#[test]
fn the_examples_in_c_run() {
    runs("examples/c/put_get.c", Linking::Shared);
    runs("examples/c/put_get.c", Linking::Static);
    runs("examples/c/watch.c", Linking::Shared);
    runs("examples/c/columns.c", Linking::Shared);
    runs("examples/c/columns.c", Linking::Static);
}

#[test]
fn the_example_in_cpp_runs() {
    runs("examples/cpp/columns.cpp", Linking::Shared);
    runs("examples/cpp/columns.cpp", Linking::Static);
}

#[test]
fn a_fork_and_a_forbidden_write() {
    runs("tests/c/forks.c", Linking::Shared);
}

#[test]
fn objects_of_a_scope_stay_together_or_not_at_all() {
    runs("tests/c/scopes.c", Linking::Shared);
}

#[test]
fn copies_are_for_objects_of_a_pool() {
    runs("tests/c/copies.c", Linking::Shared);
}

#[test]
fn the_calls_of_a_pool_in_a_store_of_none() {
    runs("tests/c/pool_without.c", Linking::Shared);
}

/// A pool for development; its processes end with it.
struct Pool(Child);

impl Drop for Pool {
    fn drop(&mut self) {
        // What it started ends with it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_calls_of_a_pool_on_two_nodes() {
    // Without etcd there is no pool.
    if Etcd::start().is_none() {
        return;
    }
    let directory = tempfile::Builder::new().prefix("plasmon-test-").tempdir().unwrap();
    let program = compile("tests/c/pool.c", Linking::Shared, directory.path());
    let programs = plasmon_testkit::build(&["plasmon-cli", "plasmon-poold"]);
    let mut command = Command::new(programs.join("plasmon"));
    command.args(["pool", "dev", "--nodes", "2", "--capacity", "32m", "--json"]);
    command.env("TMPDIR", directory.path()).env_remove("PLASMON_SOCKET");
    command.env("PLASMON_DAEMON", built().join("plasmond"));
    command.env("PLASMON_POOLD", programs.join("plasmon-poold"));
    let mut pool = Pool(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut sockets = Vec::new();
    for line in BufReader::new(pool.0.stdout.take().unwrap()).lines() {
        let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        match event["event"].as_str().unwrap() {
            "node" => sockets.push(event["socket"].as_str().unwrap().to_owned()),
            "ready" => break,
            _ => {}
        }
    }
    assert_eq!(sockets.len(), 2);
    succeeds("tests/c/pool.c", Command::new(program).args(sockets));
}

#[test]
fn nulls_and_senseless_options_are_refused() {
    runs("tests/c/nulls.c", Linking::Shared);
}

/// The numbers that the header defines.
fn constants() -> BTreeMap<String, i64> {
    let header = std::fs::read_to_string(crate_path("include/plasmon.h")).unwrap();
    let mut constants = BTreeMap::new();
    for line in header.lines() {
        let mut words = line.split_whitespace();
        if let (Some("#define"), Some(name), Some(value)) =
            (words.next(), words.next(), words.next())
        {
            if name == "PLASMON_VERSION" {
                assert_eq!(value, format!("\"{}\"", env!("CARGO_PKG_VERSION")));
                continue;
            }
            let value = value.trim_matches(['(', ')']).parse();
            constants.insert(name.to_owned(), value.unwrap_or_else(|_| panic!("{line}")));
        }
    }
    constants
}

#[test]
fn the_constants_of_the_header_are_those_of_the_library() {
    let mut expected: BTreeMap<String, i64> = BTreeMap::new();
    let mut define = |name: String, value: i64| {
        assert_eq!(expected.insert(name, value), None);
    };
    define("PLASMON_OK".to_owned(), plasmon::boundary::PLASMON_OK.into());
    define("PLASMON_END".to_owned(), plasmon::boundary::PLASMON_END.into());
    define("PLASMON_PENDING".to_owned(), plasmon::boundary::PLASMON_PENDING.into());
    define("PLASMON_PANIC".to_owned(), plasmon::boundary::PLASMON_PANIC.into());
    for code in Code::ALL {
        define(format!("PLASMON_{}", code.key().to_uppercase()), code.number().into());
    }
    for state in ObjectState::ALL {
        define(format!("PLASMON_STATE_{}", state.key().to_uppercase()), state as i64);
    }
    for level in [Level::Shared, Level::Leased, Level::Strict] {
        define(format!("PLASMON_LEVEL_{}", level.key().to_uppercase()), level as i64);
    }
    define("PLASMON_POLICY_KEEP".to_owned(), Policy::Keep as i64);
    define("PLASMON_POLICY_CACHE".to_owned(), Policy::Cache as i64);
    for (name, value) in [
        ("RAW", tag::RAW),
        ("ARROW_STREAM", tag::ARROW_STREAM),
        ("NDARRAY", tag::NDARRAY),
        ("PYTHON", tag::PYTHON),
        ("COMPOSITE", tag::COMPOSITE),
    ] {
        define(format!("PLASMON_TAG_{name}"), value.into());
    }
    for (name, value) in [("DEFAULT", 0), ("LOCAL", 1), ("COPIES", 2)] {
        define(format!("PLASMON_ACK_{name}"), value);
    }
    for (name, value) in [("LOCAL", 0), ("SPREAD", 1)] {
        define(format!("PLASMON_PLACEMENT_{name}"), value);
    }
    for (name, value) in [("MEMORY", 0), ("CACHE", 1), ("DURABLE", 2)] {
        define(format!("PLASMON_STORAGE_{name}"), value);
    }
    for (name, value) in [
        ("ABSENT", Standing::Absent),
        ("PENDING", Standing::Pending),
        ("LIVE", Standing::Live),
        ("DEAD", Standing::Dead),
        ("LOST", Standing::Lost),
        ("UNREACHABLE", Standing::Unreachable),
    ] {
        define(format!("PLASMON_STANDING_{name}"), value as i64);
    }
    define("PLASMON_ADDRESS_TEXT_BYTES".to_owned(), 40 + 1 + 20 + 1);
    define("PLASMON_ID_BYTES".to_owned(), 20);
    define("PLASMON_ID_TEXT_BYTES".to_owned(), 41);
    define("PLASMON_NAME_TEXT_BYTES".to_owned(), plasmon_proto::limits::NAME_BYTES_MAX as i64 + 1);
    let namespace = plasmon_proto::limits::NAMESPACE_BYTES_MAX as i64 + 1;
    define("PLASMON_ANY_OWNER".to_owned(), -1);
    define("PLASMON_NAMESPACE_TEXT_BYTES".to_owned(), namespace);
    define("PLASMON_FOREVER".to_owned(), -1);
    define("PLASMON_NOW".to_owned(), 0);
    define("PLASMON_ROWS".to_owned(), -1);
    let mut found = constants();
    found.retain(|name, _| name != "PLASMON_H");
    assert_eq!(found, expected);
}

#[test]
fn the_structs_of_the_header_are_as_large_as_those_of_the_library() {
    let directory = tempfile::tempdir().unwrap();
    let sizes = [
        ("plasmon_id", size_of::<plasmon::id::plasmon_id>()),
        ("plasmon_error", size_of::<plasmon::error::plasmon_error>()),
        ("plasmon_connect_options", size_of::<plasmon::connection::plasmon_connect_options>()),
        ("plasmon_setting", size_of::<plasmon::connection::plasmon_setting>()),
        ("plasmon_start_options", size_of::<plasmon::connection::plasmon_start_options>()),
        ("plasmon_store_facts", size_of::<plasmon::connection::plasmon_store_facts>()),
        ("plasmon_put_options", size_of::<plasmon::writer::plasmon_put_options>()),
        ("plasmon_part", size_of::<plasmon::writer::plasmon_part>()),
        ("plasmon_pool_api", size_of::<plasmon_client::c_allocator::AllocatorTable>()),
        ("plasmon_pool_figures", size_of::<plasmon_client::c_allocator::Figures>()),
        ("plasmon_info", size_of::<plasmon::description::plasmon_info>()),
        ("plasmon_range", size_of::<plasmon::pool::plasmon_range>()),
        ("plasmon_place", size_of::<plasmon::pool::plasmon_place>()),
        ("plasmon_address", size_of::<plasmon::pool_regions::plasmon_address>()),
        ("plasmon_region_options", size_of::<plasmon::pool_regions::plasmon_region_options>()),
        ("plasmon_notification", size_of::<plasmon::subscription::plasmon_notification>()),
    ];
    let mut source = "#include <plasmon.h>\n".to_owned();
    for (name, bytes) in sizes {
        source += &format!("_Static_assert(sizeof({name}) == {bytes}, \"{name}\");\n");
    }
    let path = directory.path().join("sizes.c");
    std::fs::write(&path, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(crate_path("include")).args(["-fsyntax-only", "-std=c11"]).arg(path);
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
