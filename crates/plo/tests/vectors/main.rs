//! The hostile golden vectors: `spec/objects/hostile/NAME.plo` breaks the rule that `NAME.json`
//! tells, and every reader has to refuse it with the code that stands there.
//!
//! They are made here and compared with the files; with `PLASMON_WRITE_SPEC=1` the files are
//! written again. What the description calls `says` is the reason that this crate gives: so each
//! vector is refused for its own rule, and not for something that went wrong on the way to it.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

mod bytes;
mod parts;
#[path = "../sample/mod.rs"]
mod sample;
mod tables;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plasmon_plo::codes::slot;
use plasmon_plo::natural::Document;
use plasmon_plo::tables::Tables;
use plasmon_plo::{Error, FormChoice, Plan, ValidObject};
use serde_json::json;

/// What only breaks a rule for readers that make objects by calls: as plain data it can be held.
const ONLY_MAKERS: [&str; 1] = ["an_object_in_its_own_arguments"];

/// One vector.
struct Vector {
    name: &'static str,
    /// The section of the specification that has the rule.
    section: u8,
    /// The rule, in words.
    rule: &'static str,
    /// What is wrong, as this crate says it; or the code, when it is not `broken`.
    says: &'static str,
    bytes: Vec<u8>,
}

/// The bytes of tables in the small form, whatever they say; the heap is zeros.
fn small(tables: &Tables) -> Vec<u8> {
    let plan = Plan::of(tables, FormChoice::Small).unwrap();
    let heap = vec![0; plan.heap_bytes() as usize];
    [plan.front(tables), heap].concat()
}

/// The bytes of tables in the stream form; the heap is zeros.
fn stream(tables: &Tables) -> Vec<u8> {
    let plan = Plan::of(tables, FormChoice::Stream).unwrap();
    let heap = vec![0; plan.heap_bytes() as usize];
    [&plan.front(tables), &heap[..], plan.tail()].concat()
}

/// Tables with a node at the root, and what `build` adds.
fn rooted(build: impl FnOnce(&mut Tables)) -> Tables {
    let mut tables = Tables::default();
    let root = tables.nodes.reserve();
    tables.slots.push_index(slot::NODE, root);
    build(&mut tables);
    tables
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/objects/hostile")
}

fn vectors() -> Vec<Vector> {
    let mut vectors = bytes::vectors();
    vectors.extend(tables::vectors());
    vectors.extend(parts::vectors());
    vectors
}

#[test]
fn every_vector_is_refused_for_the_rule_that_it_breaks() {
    for vector in vectors() {
        let error = match ValidObject::of(&vector.bytes) {
            Err(error) => error,
            // What the check leaves to the code that makes the value: strings, dates, orders.
            Ok(_) => Document::of(&vector.bytes).expect_err(vector.name),
        };
        assert_eq!(Document::of(&vector.bytes).unwrap_err(), error, "{}", vector.name);
        let says = if let Error::Broken { what, .. } = error { what } else { error.code() };
        assert_eq!(says, vector.says, "{}: {error}", vector.name);
    }
}

#[test]
fn the_files_are_these_vectors() {
    let write = std::env::var_os("PLASMON_WRITE_SPEC").is_some();
    let mut names = BTreeSet::new();
    for vector in vectors() {
        assert!(names.insert(format!("{}.json", vector.name)), "{} twice", vector.name);
        names.insert(format!("{}.plo", vector.name));
        let error = Document::of(&vector.bytes).unwrap_err();
        let description = json!({
            "error": error.code(),
            "only_makers": ONLY_MAKERS.contains(&vector.name),
            "rule": vector.rule,
            "says": error.to_string(),
            "section": vector.section,
        });
        let description = format!("{description}\n");
        let path = folder().join(vector.name);
        if write {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(path.with_extension("plo"), &vector.bytes).unwrap();
            std::fs::write(path.with_extension("json"), &description).unwrap();
        }
        let found = std::fs::read(path.with_extension("plo")).unwrap();
        assert!(found == vector.bytes, "{} is another file than the one made here", vector.name);
        let found = std::fs::read_to_string(path.with_extension("json")).unwrap();
        assert_eq!(found, description, "{}", vector.name);
    }
    let files = std::fs::read_dir(folder()).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, files, "files and vectors");
}
