//! As much of Rust's syntax as the rules need: what is code, comment or text, what is a test, and
//! where functions begin and end. Not a parser: it must only never be confused by well-formatted
//! code, and its tests show the awkward cases.

use crate::tree::TextFile;

/// A source file, taken apart.
#[derive(Debug)]
pub(crate) struct RustSource<'a> {
    /// The file.
    pub(crate) file: &'a TextFile,
    /// The text with comments and the insides of literals blanked, line by line as before.
    pub(crate) code: String,
    /// The text with everything but comments blanked.
    pub(crate) comments: String,
    /// For each line, whether it belongs to a test.
    pub(crate) test_lines: Vec<bool>,
    /// Modules in files of their own that exist for tests only.
    pub(crate) test_modules: Vec<String>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// The line of its signature, counted from 1.
    pub(crate) line: usize,
    /// Lines of code from the signature to the closing brace, without blank lines and comments.
    pub(crate) code_lines: usize,
    /// How many parameters it takes, `self` included.
    pub(crate) parameters: usize,
    /// Whether it belongs to a test.
    pub(crate) test: bool,
}

impl<'a> RustSource<'a> {
    /// Takes a file apart.
    pub(crate) fn new(file: &'a TextFile) -> Self {
        let (code, comments) = separate(&file.text);
        let lines = code.lines().count();
        let mut source = Self {
            file,
            code,
            comments,
            test_lines: vec![is_test_file(file); lines],
            test_modules: Vec::new(),
        };
        source.mark_tests();
        source
    }

    /// The lines that are neither blank nor comment nor test, with their numbers from 1.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.code.lines().zip(&self.test_lines).enumerate();
        numbered
            .filter(|(_, (line, test))| !**test && !line.trim().is_empty())
            .map(|(at, (line, _))| (at + 1, line))
    }

    /// Whether this line, counted from 1, belongs to a test.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.test_lines.get(line.saturating_sub(1)).copied().unwrap_or(false)
    }

    /// Says that the whole file belongs to tests.
    pub(crate) fn mark_all(&mut self) {
        self.test_lines.fill(true);
    }

    /// Every function with a body.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let code = self.code.as_bytes();
        let mut functions = Vec::new();
        let mut from = 0;
        while let Some(at) = find_word(code, b"fn", from) {
            from = at + 2;
            let Some((name, parameters, end)) = signature(code, from) else { continue };
            let line = line_of(code, at);
            let body = &self.code[at..=end];
            functions.push(Function {
                name,
                line,
                code_lines: body.lines().filter(|line| !line.trim().is_empty()).count(),
                parameters,
                test: self.is_test(line),
            });
        }
        functions
    }

    fn mark_tests(&mut self) {
        let code = self.code.clone();
        let code = code.as_bytes();
        let mut from = 0;
        while let Some(at) = find(code, b"#", from) {
            from = at + 1;
            let inner = code.get(from) == Some(&b'!');
            let open = from + usize::from(inner);
            if code.get(open) != Some(&b'[') {
                continue;
            }
            let Some(close) = matching(code, open) else { return };
            if !is_for_tests(&code[open + 1..close]) {
                continue;
            }
            if inner {
                self.mark_all();
                return;
            }
            let end = item_end(code, close + 1);
            self.test_modules.extend(module_name(&code[close + 1..=end]));
            let (first, last) = (line_of(code, at), line_of(code, end));
            for line in first..=last {
                self.test_lines[line - 1] = true;
            }
        }
    }
}

/// Whether a whole file is a test by its place.
fn is_test_file(file: &TextFile) -> bool {
    file.is_under("tests") || file.is_under("benches") || file.name() == "tests.rs"
}

/// Whether an attribute says that its item is there for tests only.
fn is_for_tests(attribute: &[u8]) -> bool {
    let text: String =
        attribute.iter().map(|byte| char::from(*byte)).filter(|c| !c.is_whitespace()).collect();
    if text == "test" {
        return true;
    }
    let Some(condition) = text.strip_prefix("cfg(") else { return false };
    let mut words = condition.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| word == "test")
        && !condition.contains("not(test")
        && !condition.contains("any(")
}

/// The end of the item after an attribute: its closing brace, or its semicolon.
fn item_end(code: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < code.len() {
        match code[at] {
            b'{' => return matching(code, at).unwrap_or(code.len() - 1),
            b'(' | b'[' => at = matching(code, at).unwrap_or(code.len() - 1),
            b';' => return at,
            _ => {}
        }
        at += 1;
    }
    code.len() - 1
}

/// The name in `mod name;`.
fn module_name(item: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(item);
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "mod")?;
    words.get(at + 1)?.strip_suffix(';').map(str::to_owned)
}

/// The name, the number of parameters and the end of the function whose `fn` lies before `from`;
/// `None` when it has no body or is only the type of one.
fn signature(code: &[u8], from: usize) -> Option<(String, usize, usize)> {
    let rest = &code[from..];
    let start = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let length = rest[start..].iter().position(|byte| !is_word(*byte))?;
    if length == 0 {
        return None;
    }
    let name = String::from_utf8_lossy(&rest[start..start + length]).into_owned();
    let open = from + parameters_start(&rest[start + length..])? + start + length;
    let close = matching(code, open)?;
    let end = item_end(code, close + 1);
    (code[end] == b'}').then(|| (name, count_parameters(&code[open + 1..close]), end))
}

/// Where the parameters open, after the generics.
fn parameters_start(code: &[u8]) -> Option<usize> {
    let mut angles = 0_i32;
    for (at, byte) in code.iter().enumerate() {
        match byte {
            b'<' => angles += 1,
            b'>' if at == 0 || code[at - 1] != b'-' => angles -= 1,
            b'(' if angles == 0 => return Some(at),
            b'{' | b';' if angles == 0 => return None,
            _ => {}
        }
    }
    None
}

fn count_parameters(parameters: &[u8]) -> usize {
    let mut depth = 0_i32;
    let mut count = 0;
    let mut something = false;
    for (at, byte) in parameters.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b'>' if at > 0 && parameters[at - 1] == b'-' => {}
            b')' | b']' | b'}' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                count += usize::from(something);
                something = false;
                continue;
            }
            _ => {}
        }
        something |= !byte.is_ascii_whitespace();
    }
    count + usize::from(something)
}

/// The bracket that closes the one at `open`.
fn matching(code: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The line, counted from 1, of a position.
pub(crate) fn line_of(code: &[u8], at: usize) -> usize {
    code[..at.min(code.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn find(code: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let rest = code.get(from..)?;
    rest.windows(what.len()).position(|window| window == what).map(|at| at + from)
}

/// The next place, at or after `from`, where `word` stands by itself.
pub(crate) fn find_word(code: &[u8], word: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let at = find(code, word, from)?;
        let before = at == 0 || !is_word(code[at - 1]);
        let after = code.get(at + word.len()).is_none_or(|byte| !is_word(*byte));
        if before && after {
            return Some(at);
        }
        from = at + 1;
    }
}

/// What a byte of the source is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Code,
    Comment,
    Literal,
}

/// The text with comments and literals blanked, and the text with all but comments blanked.
fn separate(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let mut parts = vec![Part::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (part, end) = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => (Part::Comment, line_end(bytes, at)),
            b'/' if bytes.get(at + 1) == Some(&b'*') => (Part::Comment, block_end(bytes, at)),
            b'"' => (Part::Literal, text_end(bytes, at)),
            b'\'' => (Part::Literal, quote_end(bytes, at)),
            b'r' => (Part::Literal, raw_end(bytes, at)),
            _ => (Part::Code, at + 1),
        };
        // A lifetime or an identifier with an r: nothing to blank.
        let end = end.max(at + 1);
        if end > at + 1 {
            parts[at..end].fill(part);
        }
        at = end;
    }
    let keep = |wanted: Part| {
        let kept = bytes
            .iter()
            .zip(&parts)
            .map(|(byte, part)| if *part == wanted || *byte == b'\n' { *byte } else { b' ' });
        String::from_utf8_lossy(&kept.collect::<Vec<u8>>()).into_owned()
    };
    (keep(Part::Code), keep(Part::Comment))
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    find(bytes, b"\n", at).unwrap_or(bytes.len())
}

fn block_end(bytes: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut position = at;
    while position + 1 < bytes.len() {
        match &bytes[position..position + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                position += 1;
                continue;
            }
        }
        position += 2;
        if depth == 0 {
            return position;
        }
    }
    bytes.len()
}

fn text_end(bytes: &[u8], at: usize) -> usize {
    let mut position = at + 1;
    while position < bytes.len() {
        match bytes[position] {
            b'\\' => position += 2,
            b'"' => return position + 1,
            _ => position += 1,
        }
    }
    bytes.len()
}

/// The end of a character literal, or `at` for a lifetime.
fn quote_end(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        return find(bytes, b"'", at + 3).map_or(bytes.len(), |end| end + 1);
    }
    let character = std::str::from_utf8(&bytes[at + 1..(at + 5).min(bytes.len())])
        .or_else(|error| std::str::from_utf8(&bytes[at + 1..at + 1 + error.valid_up_to()]))
        .ok()
        .and_then(|text| text.chars().next());
    let Some(length) = character.map(char::len_utf8) else { return at };
    if bytes.get(at + 1 + length) == Some(&b'\'') { at + length + 2 } else { at }
}

/// The end of a raw text, or `at` when the `r` there begins none.
fn raw_end(bytes: &[u8], at: usize) -> usize {
    let prefixed = at > 0 && matches!(bytes[at - 1], b'b' | b'c');
    let before = if prefixed { at.checked_sub(2) } else { at.checked_sub(1) };
    if before.is_some_and(|before| is_word(bytes[before])) {
        return at;
    }
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(at + 1 + hashes) != Some(&b'"') {
        return at;
    }
    let mut closing = vec![b'"'];
    closing.resize(1 + hashes, b'#');
    find(bytes, &closing, at + 2 + hashes).map_or(bytes.len(), |end| end + closing.len())
}

#[cfg(test)]
mod tests;
