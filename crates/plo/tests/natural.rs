//! The golden vectors as plain values of Rust: each is what its description says.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "in a test the panic is the report")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use plasmon_plo::natural::{
    Clock, Container, Document, Object, PathKind, Pickle, Tensor, Value, Zone,
};
use serde_json::Value as Json;

fn folder() -> PathBuf {
    let spec = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/objects");
    std::env::var_os("PLO_VECTORS").map_or_else(spec, PathBuf::from)
}

fn vectors() -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut vectors: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "plo")).collect();
    vectors.sort();
    vectors
}

fn description(vector: &Path) -> Json {
    let name = vector.file_stem().unwrap().to_str().unwrap();
    let name = name.trim_end_matches(".small").trim_end_matches(".stream");
    let text = std::fs::read_to_string(vector.with_file_name(format!("{name}.json"))).unwrap();
    let mut reader = serde_json::Deserializer::from_str(&text);
    reader.disable_recursion_limit();
    reader.into_iter().next().unwrap().unwrap()
}

#[test]
fn golden_vectors_are_what_they_should_be() {
    let vectors = vectors();
    assert!(!vectors.is_empty(), "no vectors in {}", folder().display());
    for vector in vectors {
        let bytes = std::fs::read(&vector).unwrap();
        let document = Document::of(&bytes).unwrap_or_else(|error| panic!("{vector:?}: {error}"));
        let mut matching = Matching { document: &document, known: HashMap::new() };
        if let Err(mismatch) = matching.value(&document.root, &description(&vector), "root") {
            panic!("{}: {mismatch}", vector.display());
        }
    }
}

#[test]
fn damaged_vectors_are_refused_or_are_values() {
    let vectors: Vec<Vec<u8>> =
        vectors().iter().map(|vector| std::fs::read(vector).unwrap()).collect();
    let seed = std::env::var("SEED").map_or(20_261_120, |seed| seed.parse().unwrap());
    println!("SEED={seed}");
    let mut state = seed;
    let mut random = |most: usize| {
        state = u64::wrapping_mul(state, 6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 33) as usize) % most
    };
    let (rounds, mut refused) = (20_000, 0);
    for _ in 0..rounds {
        let mut bytes = vectors[random(vectors.len())].clone();
        if random(10) == 0 {
            bytes.truncate(random(bytes.len()));
        } else {
            for _ in 0..=random(3) {
                let at = random(bytes.len());
                bytes[at] = [0, 1, 127, 255, random(256) as u8][random(5)];
            }
        }
        refused += usize::from(Document::of(&bytes).is_err());
    }
    assert!(refused > rounds / 4, "{refused} refused");
}

type Outcome = Result<(), String>;

struct Matching<'d, 'a> {
    document: &'d Document<'a>,
    /// What was described under an id.
    known: HashMap<u64, Value<'a>>,
}

impl<'d, 'a> Matching<'d, 'a> {
    fn value(&mut self, value: &Value<'a>, want: &Json, path: &str) -> Outcome {
        if let Some(id) = want.get("id").and_then(Json::as_u64) {
            self.known.insert(id, value.clone());
        }
        let fits = match want {
            Json::Null => *value == Value::None,
            Json::Bool(wanted) => *value == Value::Bool(*wanted),
            Json::String(wanted) => *value == Value::Str(wanted),
            _ => match want.get("ref").and_then(Json::as_u64) {
                Some(id) => self.known.get(&id).is_some_and(|known| is_same(known, value)),
                None => {
                    let tags = want.as_object().unwrap().iter();
                    let (tag, described) =
                        tags.filter(|(tag, _)| *tag != "id").max_by_key(rank).unwrap();
                    match self.document.container(value) {
                        Some(container) => return self.container(container, tag, described, path),
                        None => is_leaf(value, tag, described, want),
                    }
                }
            },
        };
        if fits { Ok(()) } else { Err(format!("{path}: {value:?} is not {want}")) }
    }

    fn container(
        &mut self,
        container: &'d Container<'a>,
        tag: &str,
        want: &Json,
        path: &str,
    ) -> Outcome {
        match (tag, container) {
            ("list", Container::List(items))
            | ("tuple", Container::Tuple(items))
            | ("set", Container::Set(items))
            | ("frozenset", Container::FrozenSet(items)) => self.all(items.iter(), want, path),
            ("dict", Container::Dict(pairs)) => {
                let column = |at: usize| {
                    let described = want.as_array().unwrap().iter();
                    Json::from(described.map(|pair| pair[at].clone()).collect::<Vec<_>>())
                };
                self.all(pairs.iter().map(|(key, _)| key), &column(0), path)?;
                self.all(pairs.iter().map(|(_, item)| item), &column(1), path)
            }
            ("array", Container::Array { shape, items }) if numbers(&want["shape"]) == *shape => {
                self.all(items.iter(), &want["items"], path)
            }
            ("object", Container::Object(object)) if is_class(object, want) => {
                self.all(object.parts.iter(), &want["parts"], path)
            }
            _ => Err(format!("{path}: {container:?} is not {tag} {want}")),
        }
    }

    fn all<'v>(
        &mut self,
        values: impl ExactSizeIterator<Item = &'v Value<'a>>,
        want: &Json,
        path: &str,
    ) -> Outcome
    where
        'a: 'v,
    {
        let want = want.as_array().unwrap();
        if values.len() != want.len() {
            return Err(format!("{path}: {} values instead of {}", values.len(), want.len()));
        }
        for (at, (value, want)) in values.zip(want).enumerate() {
            self.value(value, want, &format!("{path}[{at}]"))?;
        }
        Ok(())
    }
}

/// The tag of a pickle has its buffers beside it.
fn rank(tag: &(&String, &Json)) -> bool {
    tag.0 != "buffers"
}

fn is_same(known: &Value<'_>, value: &Value<'_>) -> bool {
    match (known, value) {
        (Value::Tensor(known), Value::Tensor(value)) => std::sync::Arc::ptr_eq(known, value),
        _ => known == value,
    }
}

fn is_class(object: &Object<'_>, want: &Json) -> bool {
    let class = &object.class;
    let fields = want["fields"].as_array().map_or(&[][..], Vec::as_slice);
    class.name == want["class"]
        && u64::from(class.source) == want["source"]
        && u64::from(class.make) == want["make"]
        && i64::from(class.version) == want["version"].as_i64().unwrap_or(0)
        && class.fields.iter().eq(fields
            .iter()
            .map(|field| field.as_str().unwrap())
            .collect::<Vec<_>>()
            .iter())
}

fn numbers(list: &Json) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_float(value: f64, want: &Json) -> bool {
    let wanted: f64 = want.as_str().unwrap().parse().unwrap();
    value.to_bits() == wanted.to_bits() || value.is_nan() && wanted.is_nan()
}

/// An integer of any size from its decimal digits: two's complement, least byte first.
fn integer_bytes(text: &str, length: usize) -> Vec<u8> {
    let (digits, negative) = (text.trim_start_matches('-'), text.starts_with('-'));
    let mut bytes = vec![0u8; length];
    for digit in digits.bytes() {
        let mut carry = u16::from(digit - b'0');
        for byte in &mut bytes {
            carry += u16::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
    }
    if negative {
        let mut carry = 1u16;
        for byte in &mut bytes {
            carry += u16::from(!*byte);
            *byte = carry as u8;
            carry >>= 8;
        }
    }
    bytes
}

fn is_leaf(value: &Value<'_>, tag: &str, want: &Json, whole: &Json) -> bool {
    let text = || want.as_str().unwrap();
    match (tag, value) {
        ("int", Value::Int(found)) => found.to_string() == text(),
        ("int", Value::BigInt(found)) => *found == integer_bytes(text(), found.len()),
        ("float", Value::Float(found)) => is_float(*found, want),
        ("complex", Value::Complex(re, im)) => is_float(*re, &want[0]) && is_float(*im, &want[1]),
        ("bytes", Value::Bytes(found))
        | ("bytearray", Value::ByteArray(found))
        | ("surrogates", Value::SurrogateStr(found)) => hex(found) == text(),
        ("date", Value::Date(days)) => i64::from(*days) == want.as_i64().unwrap(),
        ("datetime", Value::DateTime(clock)) | ("time", Value::Time(clock)) => {
            is_clock(clock, want)
        }
        ("timedelta", Value::TimeDelta { days, seconds, micros }) => {
            numbers(want) == [*days, *seconds, *micros].map(i64::from)
        }
        ("tzinfo", Value::Zone(zone)) => is_zone(Some(zone), want),
        ("decimal", Value::Decimal(found))
        | ("type", Value::Type(found))
        | ("global", Value::Global(found)) => *found == text(),
        ("uuid", Value::Uuid(found)) => hex(found) == text().replace('-', ""),
        ("path", Value::Path(kind, found)) => {
            let kind = [PathKind::Platform, PathKind::Posix, PathKind::Windows]
                .iter()
                .position(|known| known == kind);
            kind.map(|at| at as u64) == want[0].as_u64()
                && *found == want[1].as_str().unwrap().as_bytes()
        }
        ("singleton", Value::Ellipsis) => text() == "Ellipsis",
        ("singleton", Value::NotImplemented) => text() == "NotImplemented",
        ("scalar", Value::Scalar(dtype, data)) => {
            dtype.text == want["dtype"] && hex(data) == want["data"].as_str().unwrap()
        }
        ("dtype", Value::Dtype(dtype)) => dtype.text == text(),
        ("tensor", Value::Tensor(tensor)) => is_tensor(tensor, want),
        ("pickle" | "cloudpickle", Value::Pickle(pickle)) => is_pickle(pickle, tag, whole),
        ("arrow", Value::Arrow { kind, text, stream }) => {
            u64::from(*kind) == want["kind"]
                && *text == want["text"]
                && hex(stream) == want["stream"].as_str().unwrap()
        }
        _ => false,
    }
}

fn is_clock(clock: &Clock<'_>, want: &Json) -> bool {
    clock.micros == want[0]
        && u64::from(clock.fold) == want[1]
        && is_zone(clock.zone.as_ref(), &want[2])
}

fn is_zone(zone: Option<&Zone<'_>>, want: &Json) -> bool {
    match zone {
        None => want.is_null(),
        Some(Zone::Utc) => want == "UTC",
        Some(Zone::Iana(key)) => want["key"] == *key,
        Some(Zone::Fixed(offset, name)) => {
            want["offset"] == *offset && want["name"].as_str().unwrap_or("") == name.unwrap_or("")
        }
    }
}

fn is_tensor(tensor: &Tensor<'_>, want: &Json) -> bool {
    let strides = want.get("strides").is_none_or(|strides| numbers(strides) == tensor.strides);
    let elements: Vec<u8> = tensor.elements().flatten().copied().collect();
    u64::from(tensor.kind) == want["kind"].as_u64().unwrap_or(0)
        && tensor.dtype.text == want["dtype"]
        && tensor.shape == numbers(&want["shape"])
        && strides
        && hex(&tensor.bytes()) == want["data"].as_str().unwrap()
        && elements == *tensor.bytes()
}

fn is_pickle(pickle: &Pickle<'_>, tag: &str, whole: &Json) -> bool {
    let wanted = whole.get("buffers").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let wanted: Vec<&str> = wanted.iter().map(|buffer| buffer.as_str().unwrap()).collect();
    pickle.cloudpickle == (tag == "cloudpickle")
        && hex(pickle.data) == whole[tag].as_str().unwrap()
        && pickle.buffers.iter().map(|buffer| hex(buffer)).collect::<Vec<_>>() == wanted
}
