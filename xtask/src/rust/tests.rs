use super::*;

fn file(text: &str) -> TextFile {
    TextFile { path: "crates/x/src/a.rs".to_owned(), text: text.to_owned() }
}

fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let file = file(text);
    let all = RustSource::new(&file).functions();
    all.into_iter().map(|f| (f.name, f.code_lines, f.parameters)).collect()
}

fn owned(expected: &[(&str, usize, usize)]) -> Vec<(String, usize, usize)> {
    expected.iter().map(|(name, lines, count)| ((*name).to_owned(), *lines, *count)).collect()
}

#[test]
fn comments_and_literals_are_told_from_code() {
    let text = concat!(
        "let a = \"// no { comment\"; // a { comment\n",
        "let b = 'x'; let c = '\\''; fn f<'a>(x: &'a str) {}\n",
        "/* outer /* inner } */ still */ let d = r#\"raw \" text }\"#;\n",
        "let r = br\"}\"; let e = '\u{e9}'; let r#type = 1;\n",
    );
    let (code, comments) = separate(text);
    assert!(!code.contains("comment") && !code.contains("inner") && !code.contains("raw"));
    assert_eq!(code.matches('{').count(), 1, "{code}");
    assert_eq!(code.matches('}').count(), 1, "{code}");
    assert!(code.contains("fn f<'a>(x: &'a str) {}") && code.contains("let r#type = 1;"));
    assert!(comments.contains("// a { comment") && comments.contains("still */"));
    assert!(!comments.contains("let"));
    assert_eq!(code.lines().count(), text.lines().count());
}

#[test]
fn functions_are_measured_without_blank_lines_and_comments() {
    let text = "
fn one(a: u8) -> [u8; 2] {

    // a comment

    [a, 1]
}
trait T {
    fn no_body(&self);
    fn with<F: Fn(u8, u8) -> u8>(&self, f: F, pair: (u8, u8),) { f(1, 2); }
}
type Pointer = fn(u8, u8) -> u8;
fn generic<A, B>(map: HashMap<A, B>, f: impl Fn() -> Vec<u8>) where A: Sized {}
";
    assert_eq!(functions(text), owned(&[("one", 3, 1), ("with", 1, 3), ("generic", 1, 2)]));
}

#[test]
fn tests_are_told_from_the_product() {
    let text = "
fn product() {}
#[cfg(test)]
mod tests {
    #[test]
    fn test() { product() }
}
#[cfg(all(test, loom))]
mod models;
#[cfg(not(test))]
fn also_product() {}
#[test]
fn alone() {}
";
    let file = file(text);
    let source = RustSource::new(&file);
    let names: Vec<(String, bool)> =
        source.functions().into_iter().map(|function| (function.name, function.test)).collect();
    let expected = [("product", false), ("test", true), ("also_product", false), ("alone", true)];
    assert_eq!(names, expected.map(|(name, test)| (name.to_owned(), test)));
    assert_eq!(source.test_modules, ["models"]);
    assert_eq!(source.product_lines().count(), 3);
    let file = TextFile { path: "crates/x/tests/a.rs".to_owned(), text: "fn f() {}".to_owned() };
    assert_eq!(RustSource::new(&file).product_lines().count(), 0);
}

#[test]
fn an_inner_attribute_makes_the_whole_file_a_test() {
    let file = file("//! Models.\n#![cfg(all(test, loom))]\nfn f() {}\n");
    assert_eq!(RustSource::new(&file).product_lines().count(), 0);
}
