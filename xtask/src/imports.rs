//! Which file imports which: as much of the `use` trees of Rust and of the imports of Python as the
//! rule about circles needs.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust::RustSource;
use crate::tree::Tree;

/// For each file the files that it imports.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// How often a name may be passed on before it is found.
const PASSED_ON_MAX: usize = 8;

/// The segments of a path, `["crate", "a", "Name"]`.
type Segments = Vec<String>;

/// A module of Rust in a file of its own.
#[derive(Default)]
struct Module<'a> {
    file: &'a str,
    /// The paths of its `use` items, with the names that they bring.
    uses: Vec<(String, Segments)>,
    /// Paths that stand elsewhere in the code.
    mentions: Vec<Segments>,
}

/// The imports between the files of each crate, without tests. The root of a crate, which names its
/// modules and passes their items on, is not a file of the graph.
pub(crate) fn of_rust(sources: &[RustSource<'_>]) -> Graph {
    let mut crates: BTreeMap<&str, BTreeMap<Segments, Module<'_>>> = BTreeMap::new();
    for source in sources {
        let path = source.file.path.as_str();
        let Some((folder, inside)) = path.split_once("/src/") else { continue };
        let code: String =
            source.product_lines().flat_map(|(_, line)| [line, "\n"]).collect::<String>();
        let (items, rest) = separate(&code);
        let uses = items.iter().flat_map(|item| leaves(item)).collect();
        let modules = crates.entry(folder).or_default();
        // A library and a program of one crate have one root.
        let module = modules.entry(module_path(inside)).or_default();
        module.file = path;
        module.uses.extend::<Vec<_>>(uses);
        module.mentions.extend(mentions(&rest));
    }
    let mut graph = Graph::new();
    for modules in crates.values() {
        for (here, module) in modules.iter().filter(|(here, _)| !here.is_empty()) {
            let paths = module.uses.iter().map(|(_, path)| path).chain(&module.mentions);
            let found = paths.filter_map(|path| resolve(modules, here, path, PASSED_ON_MAX));
            let imports = found.filter(|file| *file != module.file).map(str::to_owned).collect();
            graph.insert(module.file.to_owned(), imports);
        }
    }
    graph
}

/// The path of the module in a file below `src/`; empty for the root of a crate.
fn module_path(inside: &str) -> Segments {
    let mut segments: Segments =
        inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    let last = segments.last().map(String::as_str);
    if last == Some("mod") || (segments.len() == 1 && matches!(last, Some("lib" | "main"))) {
        segments.pop();
    }
    segments
}

/// The file in which the item that `path` names in the module `here` is declared.
fn resolve<'a>(
    modules: &BTreeMap<Segments, Module<'a>>,
    here: &[String],
    path: &[String],
    passed_on_max: usize,
) -> Option<&'a str> {
    let ups = path.iter().take_while(|segment| *segment == "super").count();
    let (mut at, rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "super" => (here[..here.len().checked_sub(ups)?].to_vec(), &path[ups..]),
        "self" => (here.to_vec(), &path[1..]),
        first => {
            let child = [here, &[first.to_owned()]].concat();
            modules.contains_key(&child).then_some(())?;
            (child, &path[1..])
        }
    };
    for (index, segment) in rest.iter().enumerate() {
        let child = [at.as_slice(), std::slice::from_ref(segment)].concat();
        if modules.contains_key(&child) {
            at = child;
            continue;
        }
        let module = modules.get(&at)?;
        // The module may only pass the name on.
        let passed = module.uses.iter().filter(|(name, _)| name == segment);
        for (_, from) in passed.filter(|_| passed_on_max > 0) {
            let whole = [from.as_slice(), &rest[index + 1..]].concat();
            if let Some(file) = resolve(modules, &at, &whole, passed_on_max - 1) {
                return Some(file);
            }
        }
        break;
    }
    modules.get(&at).filter(|_| !at.is_empty()).map(|module| module.file)
}

/// The trees of the `use` items, and the code without them.
fn separate(code: &str) -> (Vec<&str>, String) {
    let (mut items, mut rest) = (Vec::new(), String::new());
    let mut from = 0;
    while let Some(at) = crate::rust::find_word(code.as_bytes(), b"use", from) {
        let end = code[at..].find(';').map_or(code.len(), |end| at + end);
        rest.push_str(&code[from..at]);
        items.push(&code[at + "use".len()..end]);
        from = end;
    }
    rest.push_str(&code[from..]);
    (items, rest)
}

/// The paths of a `use` tree, each with the name that it brings.
fn leaves(tree: &str) -> Vec<(String, Segments)> {
    let mut found = Vec::new();
    let mut open = vec![(Vec::new(), tree.trim().to_owned())];
    while let Some((before, tree)) = open.pop() {
        if let Some((prefix, inner)) = tree.split_once('{') {
            let prefix = [before, segments(prefix)].concat();
            let inner = inner.trim_end().trim_end_matches('}');
            open.extend(parts(inner).into_iter().map(|part| (prefix.clone(), part)));
            continue;
        }
        let (path, alias) = match tree.split_once(" as ") {
            Some((path, alias)) => (path, Some(alias.trim().to_owned())),
            None => (tree.as_str(), None),
        };
        let mut path = [before, segments(path)].concat();
        if path.len() > 1 && matches!(path.last().map(String::as_str), Some("self" | "*")) {
            path.pop();
        }
        let Some(last) = path.last() else { continue };
        found.push((alias.unwrap_or_else(|| last.clone()), path));
    }
    found
}

/// The parts of a list between braces.
fn parts(list: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0_usize);
    for character in list.chars() {
        match character {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

fn segments(path: &str) -> Segments {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The paths in code that begin at the root, at a parent or at a module below.
fn mentions(code: &str) -> Vec<Segments> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    code.split(|c: char| !is_path(c))
        .filter(|word| word.contains("::") && !word.starts_with(':'))
        .map(segments)
        .collect()
}

/// Where absolute imports of Python begin.
const PYTHON_ROOTS: &[&str] = &["python/", "", "readers/python/"];

/// The imports at the beginning of modules of Python, without tests. What a function imports while
/// it runs cannot be half made. A compiled module is there by its stub, and imports nothing.
pub(crate) fn of_python(tree: &Tree) -> Graph {
    let mut graph = Graph::new();
    for file in tree.with_extension(&["py"]).filter(|file| !file.is_under("tests")) {
        let imports = python_names(&file.text, &file.path)
            .into_iter()
            .filter_map(|names| names.iter().find_map(|name| python_file(tree, name)))
            .filter(|imported| *imported != file.path);
        graph.insert(file.path.clone(), imports.collect());
    }
    graph
}

/// What each import may mean, the likeliest first, as paths without an ending.
fn python_names(text: &str, path: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let absolute = |name: &str| {
        let name = name.replace('.', "/");
        PYTHON_ROOTS.iter().map(move |root| format!("{root}{name}")).collect::<Vec<_>>()
    };
    for statement in python_imports(text) {
        if let Some(names) = statement.strip_prefix("import ") {
            found.extend(names.split(',').filter_map(first_word).map(absolute));
        }
        let Some((module, names)) =
            statement.strip_prefix("from ").and_then(|rest| rest.split_once(" import "))
        else {
            continue;
        };
        let name = module.trim().trim_start_matches('.');
        let bases = match module.trim().len() - name.len() {
            0 => absolute(name),
            dots => {
                let parents: Vec<&str> = path.split('/').collect();
                let kept = parents.len().saturating_sub(dots);
                let name = name.replace('.', "/");
                vec![[&parents[..kept].join("/"), "/", &name].concat().trim_end_matches('/').into()]
            }
        };
        for name in names.split(',').filter_map(first_word) {
            let inner = bases.iter().map(|base| format!("{base}/{name}"));
            found.push(inner.chain(bases.iter().cloned()).collect());
        }
    }
    found
}

fn first_word(text: &str) -> Option<&str> {
    text.split_whitespace().next()
}

/// The import statements that are not indented, each as one line without brackets.
fn python_imports(text: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with("import ") && !line.starts_with("from ") {
            continue;
        }
        let mut statement = without_comment(line).to_owned();
        while statement.contains('(') && !statement.contains(')') {
            let Some(line) = lines.next() else { break };
            statement.push_str(without_comment(line));
        }
        statements.push(statement.replace(['(', ')'], " "));
    }
    statements
}

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default()
}

fn python_file(tree: &Tree, name: &str) -> Option<String> {
    [format!("{name}.py"), format!("{name}/__init__.py"), format!("{name}.pyi")]
        .into_iter()
        .find(|path| tree.file(path).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let tree = Tree::of(files);
        let sources: Vec<RustSource<'_>> =
            tree.with_extension(&["rs"]).map(RustSource::new).collect();
        edges(&of_rust(&sources))
    }

    fn edges(graph: &Graph) -> Vec<(String, String)> {
        let name = |path: &str| path.trim_start_matches("x/src/").to_owned();
        let edges = graph.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
        edges.map(|(from, to)| (name(from), name(to))).collect()
    }

    #[test]
    fn every_way_to_name_a_module_is_an_import() {
        let ways = [
            "use crate::b::Name;",
            "pub(crate) use crate::{c::X, b::{self, Y as Z}};",
            "use super::b;",
            "fn f() -> crate::b::Name {}",
            "fn f() { crate::b::g(1) }",
            "use crate::Passed;",
            "use crate::{\n    Passed as Other,\n};",
        ];
        for way in ways {
            let files = [
                ("x/src/lib.rs", "mod a; mod b; mod c; pub use b::Passed;"),
                ("x/src/a.rs", way),
                ("x/src/b.rs", "pub struct Passed;"),
                ("x/src/c.rs", ""),
            ];
            let found = rust(&files);
            assert!(found.contains(&("a.rs".to_owned(), "b.rs".to_owned())), "{way}: {found:?}");
        }
    }

    #[test]
    fn a_module_and_those_below_it_are_different_files() {
        let files = [
            ("x/src/main.rs", "mod a;"),
            ("x/src/a/mod.rs", "mod below; pub(crate) use below::Low; fn f() { below::g() }"),
            ("x/src/a/below.rs", "use super::High;\nuse std::fs;"),
            ("x/src/b.rs", "use crate::a::Low;\nuse crate::here;"),
        ];
        let expected = [("a/below.rs", "a/mod.rs"), ("a/mod.rs", "a/below.rs")];
        let expected = [&expected[..], &[("b.rs", "a/below.rs")]].concat();
        let expected = expected.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(rust(&files), expected.collect::<Vec<_>>());
    }

    #[test]
    fn comments_texts_tests_and_other_crates_are_no_imports() {
        let code = "// use crate::b;\nconst A: &str = \"crate::b\";\nuse other::b;\n\
                    #[cfg(test)]\nmod tests {\n    use crate::b;\n}\n";
        assert_eq!(rust(&[("x/src/a.rs", code), ("x/src/b.rs", "")]), []);
        let aside = [("x/src/a.rs", "use crate::b;"), ("y/src/b.rs", "")];
        assert_eq!(rust(&aside), []);
    }

    #[test]
    fn a_compiled_module_is_not_the_package_that_it_lies_in() {
        let files = [
            ("python/plasmon/__init__.py", "from plasmon import _a"),
            ("python/plasmon/_a.py", "from plasmon import _native"),
            ("python/plasmon/_native.pyi", "from plasmon import _a"),
        ];
        let graph = of_python(&Tree::of(&files));
        let imports = |path: &str| graph[path].iter().cloned().collect::<Vec<_>>();
        assert_eq!(imports("python/plasmon/_a.py"), ["python/plasmon/_native.pyi"]);
        assert_eq!(imports("python/plasmon/__init__.py"), ["python/plasmon/_a.py"]);
        assert!(!graph.contains_key("python/plasmon/_native.pyi"));
    }

    #[test]
    fn python_imports_at_the_left_edge_count() {
        let cases = [
            ("from plasmon import _b", true),
            ("from plasmon._b import (\n    x,  # why\n    y,\n)", true),
            ("import os, plasmon._b", true),
            ("from . import _b", true),
            ("from ._b import x", true),
            ("def f():\n    from plasmon import _b", false),
            ("if TYPE_CHECKING:\n    from plasmon import _b", false),
            ("from other import _b", false),
        ];
        for (text, counts) in cases {
            let files = [("python/plasmon/_a.py", text), ("python/plasmon/_b.py", "")];
            let graph = of_python(&Tree::of(&files));
            let imports = graph["python/plasmon/_a.py"].contains("python/plasmon/_b.py");
            assert_eq!(imports, counts, "{text}");
        }
    }
}
