//! Objects whose classes, tensors, extensions or strings break the rules of sections 5 and 6.

use plasmon_plo::codes::{elem, ext, kind, make, slot, source, tensor};
use plasmon_plo::tables::{Class, Node, Tables};

use crate::bytes::replaced;
use crate::sample::{node, run};
use crate::{Vector, rooted, small};

pub(crate) fn vectors() -> Vec<Vector> {
    let mut all = classes();
    all.extend(named_classes());
    all.extend(arguments());
    all.extend(tensors());
    all.extend(arrays_of_objects());
    all.extend(extensions());
    all.extend(heap_entries());
    all.extend(dtypes());
    all.extend(moments());
    all.extend(strings());
    all
}

fn vector(
    section: u8,
    [name, rule, says]: [&'static str; 3],
    build: impl FnOnce(&mut Tables),
) -> Vector {
    Vector { name, section, rule, says, bytes: small(&rooted(build)) }
}

/// An object at the root of a class, with the given numbers of fields and parts.
fn object(tables: &mut Tables, class: Class<'_>, fields: usize, parts: usize) {
    let extra = tables.classes.push(class, vec![&b"x"[..]; fields]);
    tables.i32.extend(vec![[0; 4]; parts]);
    let elem = if parts == 0 { elem::NONE } else { elem::I32 };
    tables.nodes.set(0, Node { extra, ..node(kind::OBJECT, run(elem, 0), parts) });
}

fn registered(make: u8) -> Class<'static> {
    Class { source: source::REGISTERED, make, name: "point", ..Class::default() }
}

fn classes() -> Vec<Vector> {
    const UNKNOWN: &str = "a class of an unknown kind";
    const PARTS: &str = "an object with another number of parts";
    const FIELDS: &str = "a class with fields that it cannot have";
    let made = |names: [&'static str; 3], class: Class<'static>, fields, parts| {
        vector(5, names, |t| object(t, class, fields, parts))
    };
    let parts = "an object has the parts that its class's make says";
    let fields = "fields are those of make 0, at most 1,024";
    vec![
        made(
            ["an_unknown_source", "source is 0 to 3", UNKNOWN],
            Class { source: 4, ..registered(make::ATTRIBUTES) },
            1,
            1,
        ),
        made(["an_unknown_make", "make is 0 to 5", UNKNOWN], registered(6), 0, 1),
        made(["a_part_too_many", parts, PARTS], registered(make::ATTRIBUTES), 1, 2),
        made(["a_part_too_few", parts, PARTS], registered(make::ATTRIBUTES), 2, 1),
        made(["a_state_too_many", parts, PARTS], registered(make::STATE), 0, 2),
        made(["a_call_without_arguments", parts, PARTS], registered(make::CALL), 0, 0),
        made(["a_call_of_6_parts", parts, PARTS], registered(make::CALL), 0, 6),
        made(["a_value_with_parts", parts, PARTS], registered(make::VALUE), 0, 1),
        made(["fields_of_a_state", fields, FIELDS], registered(make::STATE), 1, 1),
        made(["fields_past_the_limit", fields, FIELDS], registered(make::ATTRIBUTES), 1025, 1025),
    ]
}

fn named_classes() -> Vec<Vector> {
    let made = |names: [&'static str; 3], class: Class<'static>, fields, parts| {
        vector(5, names, |t| object(t, class, fields, parts))
    };
    let pickled = Class { source: source::PICKLED, ..registered(make::CALL) };
    vec![
        vector(
            5,
            [
                "a_name_past_the_limit",
                "a class's name has at most 4,096 bytes",
                "the name of a class past its limit",
            ],
            |t| {
                let name = "n".repeat(4097);
                object(t, Class { name: &name, ..registered(make::ATTRIBUTES) }, 1, 1);
            },
        ),
        made(
            [
                "a_name_and_a_pickle",
                "ext is -1 unless source is 3",
                "a class with a name and a pickle",
            ],
            Class { ext: Some(0), ..registered(make::ATTRIBUTES) },
            1,
            1,
        ),
        made(
            [
                "a_pickled_class_without_its_pickle",
                "ext is the extension with the callable",
                "an index that is neither in use nor the next",
            ],
            pickled,
            0,
            1,
        ),
        vector(
            5,
            [
                "a_class_pickled_as_a_number",
                "the callable of source 3 is a pickle",
                "a class that is pickled as something else",
            ],
            |t| {
                t.exts.data.bytes.push(1);
                let ext = Some(t.exts.push(ext::INT));
                object(t, Class { ext, ..pickled }, 0, 1);
            },
        ),
        vector(
            5,
            [
                "a_class_before_its_turn",
                "classes are numbered at their first mention",
                "an index that is neither in use nor the next",
            ],
            |t| {
                t.classes.push(registered(make::ATTRIBUTES), []);
                object(t, registered(make::ATTRIBUTES), 1, 1);
            },
        ),
    ]
}

fn arguments() -> Vec<Vector> {
    let parts_as_rows = vector(
        4,
        [
            "an_object_whose_parts_are_rows",
            "the parts of one object are no rows",
            "an object whose parts are rows",
        ],
        |t| {
            let extra = t.classes.push(registered(make::ATTRIBUTES), [&b"x"[..]]);
            t.nodes.reserve_many(2);
            t.nodes.set(0, Node { extra, ..node(kind::OBJECT, run(elem::ROWS, 1), 1) });
            t.nodes.set(1, Node { extra: 1, ..node(kind::TUPLE_ROWS, run(elem::NONE, 0), 1) });
            t.nodes.set(2, node(kind::FIELD, run(elem::I32, 0), 1));
            t.i32.push([0; 4]);
        },
    );
    vec![
        parts_as_rows,
        vector(
            4,
            [
                "an_object_in_its_own_arguments",
                "an object is not among its own arguments",
                "an object that is among its own arguments",
            ],
            |t| {
                // The arguments are a tuple of the object itself.
                let extra = t.classes.push(registered(make::CALL), []);
                t.nodes.reserve();
                t.nodes.set(0, Node { extra, ..node(kind::OBJECT, run(elem::NODES, 1), 1) });
                let start = t.slots.len();
                t.slots.push_index(slot::REF, 0);
                t.nodes.set(1, node(kind::TUPLE, run(elem::SLOTS, start), 1));
            },
        ),
    ]
}

/// A tensor of bytes and its place; the heap has one entry of 64 bytes.
struct Place<'t> {
    kind: u8,
    shape: &'t [i64],
    strides: &'t [i64],
    heap: Option<usize>,
    offset: u64,
}

impl Place<'_> {
    fn push(&self, tables: &mut Tables) -> usize {
        let dtype = tables.dtypes.push(b"|u1", 1);
        let longs = |numbers: &[i64]| numbers.iter().map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        tables.tensors.shape.values.extend(longs(self.shape));
        let number = tables.tensors.push(self.kind, dtype);
        tables.tensors.strides.values.extend(longs(self.strides));
        tables.tensors.strides.end();
        tables.heap.push(64);
        if let Some(entry) = self.heap {
            tables.tensors.place(number, entry, self.offset);
        }
        number
    }
}

fn bytes_of<'t>(shape: &'t [i64], strides: &'t [i64], offset: u64) -> Place<'t> {
    Place { kind: tensor::NUMPY, shape, strides, heap: Some(0), offset }
}

fn tensors() -> Vec<Vector> {
    const OUTSIDE: &str = "a tensor that reaches outside of the heap";
    const HUGE: &str = "a tensor larger than any memory";
    const ODD: &str = "a tensor of an unknown kind, or with parts that don't fit";
    const WITHOUT: &str = "a tensor without its bytes";
    let one = |name, rule, says, place: Place<'_>| {
        vector(6, [name, rule, says], |t| {
            place.push(t);
            t.nodes.set(0, node(kind::LIST, run(elem::TENSORS, 0), 1));
        })
    };
    let within = "every element of a tensor lies in its heap entry";
    let strides = "strides are as many as extents, or none";
    let extents = "extents are not negative";
    let dimensions = "a tensor has at most 64 dimensions";
    let kinds = "a tensor's kind is 0 to 2, in a run or a slot 0 or 1";
    vec![
        one("a_tensor_that_is_too_long", within, OUTSIDE, bytes_of(&[65], &[], 0)),
        one("a_tensor_that_starts_too_late", within, OUTSIDE, bytes_of(&[8, 8], &[], 1)),
        one("a_tensor_below_its_entry", within, OUTSIDE, bytes_of(&[8, 8], &[-8, 1], 55)),
        one("a_tensor_with_long_strides", within, OUTSIDE, bytes_of(&[8, 8], &[9, 1], 0)),
        one("a_tensor_at_the_end_of_memory", within, OUTSIDE, bytes_of(&[2], &[1], u64::MAX)),
        one("a_tensor_behind_its_entry", within, OUTSIDE, bytes_of(&[1], &[1], 64)),
        one(
            "a_tensor_of_an_entry_that_is_not_there",
            within,
            OUTSIDE,
            Place { heap: Some(1), ..bytes_of(&[1], &[], 0) },
        ),
        one(
            "a_tensor_of_an_entry_below_0",
            within,
            OUTSIDE,
            Place { heap: Some(0xffff_fffe), ..bytes_of(&[1], &[], 0) },
        ),
        one("a_tensor_past_any_memory", within, HUGE, bytes_of(&[1 << 62, 4], &[], 0)),
        one("strides_past_any_memory", within, HUGE, bytes_of(&[3], &[i64::MAX], 0)),
        one(
            "a_tensor_without_its_bytes",
            within,
            WITHOUT,
            Place { heap: None, ..bytes_of(&[1], &[], 0) },
        ),
        one(
            "a_negative_extent",
            extents,
            "a tensor with a negative extent",
            bytes_of(&[-1], &[], 0),
        ),
        one("too_few_strides", strides, ODD, bytes_of(&[4, 4], &[1], 0)),
        one("65_dimensions", dimensions, ODD, bytes_of(&[1; 65], &[], 0)),
        one("a_tensor_of_an_unknown_kind", kinds, ODD, Place { kind: 3, ..bytes_of(&[1], &[], 0) }),
        one(
            "a_shape_that_is_no_array",
            kinds,
            "a tensor of the wrong kind",
            Place { kind: tensor::OBJECTS, heap: None, ..bytes_of(&[1], &[], 0) },
        ),
    ]
}

fn arrays_of_objects() -> Vec<Vector> {
    let array = |name, rule, says, place: Place<'_>, items: usize| {
        vector(4, [name, rule, says], |t| {
            let extra = place.push(t);
            t.i32.extend(vec![[0; 4]; items]);
            t.nodes.set(0, Node { extra, ..node(kind::ARRAY, run(elem::I32, 0), items) });
        })
    };
    let shape = |kind, heap| Place { kind, heap, ..bytes_of(&[2, 2], &[], 0) };
    vec![
        array(
            "an_array_of_objects_with_too_few",
            "an array of objects has as many items as its shape says",
            "an array of objects with another number of elements",
            shape(tensor::OBJECTS, None),
            3,
        ),
        array(
            "an_array_of_objects_with_the_shape_of_another",
            "the shape of an array of objects is a tensor of kind 2",
            "a tensor of the wrong kind",
            shape(tensor::NUMPY, Some(0)),
            4,
        ),
        array(
            "an_array_of_objects_with_bytes",
            "a shape has no heap entry",
            "a tensor that reaches outside of the heap",
            shape(tensor::OBJECTS, Some(0)),
            4,
        ),
    ]
}

/// An extension in a list at the root.
fn extension(tables: &mut Tables, kind: u8, data: &[u8]) {
    tables.exts.data.bytes.extend(data);
    let first = tables.exts.push(kind);
    tables.nodes.set(0, node(kind::LIST, run(elem::EXTS, 0), first + 1));
}

fn extensions() -> Vec<Vector> {
    let one = |names: [&'static str; 3], kind: u8, data: &'static [u8]| {
        vector(6, names, |t| extension(t, kind, data))
    };
    let length = "the data of an extension is as long as its kind says";
    let says = "an extension whose data has the wrong length";
    vec![
        one(
            [
                "an_extension_of_an_unknown_kind",
                "an extension's kind is 0 to 22",
                "an extension of an unknown kind",
            ],
            23,
            b"abcdefgh",
        ),
        one(["half_a_complex_number", length, says], ext::COMPLEX, &[0; 8]),
        one(["a_date_of_3_bytes", length, says], ext::DATE, &[0; 3]),
        one(["a_datetime_without_a_zone", length, says], ext::DATETIME, &[0; 9]),
        one(["a_uuid_of_17_bytes", length, says], ext::UUID, &[0; 17]),
        one(["a_path_of_nothing", length, says], ext::PATH, b""),
        one(
            ["an_unknown_singleton", "a singleton is 0 or 1", "an unknown singleton"],
            ext::SINGLETON,
            &[2],
        ),
        one(["an_unknown_path", "a path's kind is 0 to 2", "an unknown path"], ext::PATH, &[3]),
    ]
}

fn heap_entries() -> Vec<Vector> {
    let one =
        |names: [&'static str; 3], kind: u8, lengths: &'static [u64], heaps: &'static [u32]| {
            vector(6, names, |t| {
                t.heap.push(64);
                t.heap.push(64);
                for (length, heap) in lengths.iter().zip(heaps) {
                    t.exts.heaps.values.push(heap.to_le_bytes());
                    extension(t, kind, &length.to_le_bytes());
                }
                if heaps.is_empty() {
                    extension(t, kind, &[0; 8]);
                }
            })
        };
    let count = "an extension has as many heap entries as its kind says";
    let wrong = "an extension with the wrong number of heap entries";
    let rise = "the heap numbers of extensions grow, and are there";
    let fall = "heap entries of extensions that do not rise";
    let fits = "an extension's length, rounded up to 64, is that of its heap entry";
    let other = "an extension of another length than its heap entry";
    vec![
        one(["long_bytes_without_an_entry", count, wrong], ext::LONG_BYTES, &[], &[]),
        one(["a_bytearray_with_an_entry", count, wrong], ext::BYTEARRAY, &[64], &[0]),
        one(["one_entry_for_two", rise, fall], ext::LONG_BYTES, &[64, 64], &[0, 0]),
        one(["entries_that_fall", rise, fall], ext::LONG_BYTES, &[64, 64], &[1, 0]),
        one(["an_entry_that_is_not_there", rise, fall], ext::LONG_BYTES, &[64], &[2]),
        one(["an_entry_below_0", rise, fall], ext::LONG_BYTES, &[64], &[u32::MAX]),
        one(["bytes_longer_than_their_entry", fits, other], ext::LONG_BYTES, &[65], &[0]),
        one(["bytes_much_shorter_than_their_entry", fits, other], ext::LONG_BYTES, &[0], &[0]),
        one(["bytes_past_any_memory", fits, other], ext::LONG_BYTES, &[u64::MAX], &[0]),
    ]
}

fn dtypes() -> Vec<Vector> {
    const MISSING: &str = "an extension with an element type that is not there";
    let there = "an element type is an entry of dtypes";
    let of = |kind: u8, data: &'static [u8]| {
        move |t: &mut Tables| {
            t.dtypes.push(b"<f8", 8);
            extension(t, kind, data);
        }
    };
    let mut tensor_of = rooted(|t| {
        bytes_of(&[1], &[], 0).push(t);
        t.nodes.set(0, node(kind::LIST, run(elem::TENSORS, 0), 1));
    });
    tensor_of.dtypes = plasmon_plo::tables::Dtypes::default();
    vec![
        vector(6, ["a_scalar_of_no_type", there, MISSING], of(ext::SCALAR, &[1, 0, 0, 0, 7])),
        vector(6, ["a_dtype_that_is_not_there", there, MISSING], of(ext::DTYPE, &[1, 0, 0, 0])),
        vector(
            6,
            ["a_scalar_of_another_length", "a scalar is as long as its element type", MISSING],
            of(ext::SCALAR, &[0; 8]),
        ),
        Vector {
            name: "a_tensor_of_no_type",
            section: 6,
            rule: there,
            says: "a tensor of an unknown kind, or with parts that don't fit",
            bytes: small(&tensor_of),
        },
        vector(
            6,
            [
                "an_element_type_below_0",
                "an itemsize is not negative",
                "an element type of a negative size",
            ],
            |t| {
                t.dtypes.push(b"<f8", 0xffff_ffff);
                extension(t, ext::DTYPE, &[0; 4]);
            },
        ),
    ]
}

/// A moment: microseconds, fold, zone.
fn moment(micros: i64, fold: u8, zone: &[u8]) -> Vec<u8> {
    [&micros.to_le_bytes()[..], &[fold], zone].concat()
}

fn moments() -> Vec<Vector> {
    const NO_CLOCK: &str = "a time out of range";
    const DAY: i64 = 86_400_000_000;
    let one = |name, rule, says, kind: u8, data: Vec<u8>| {
        vector(6, [name, rule, says], |t| extension(t, kind, &data))
    };
    let years = "dates are of the years 1 to 9999";
    let day = "a time is of one day";
    let fold = "fold is 0 or 1";
    let zone = "a zone is 0 or 1 alone, 2 with 8 bytes and a name, or 3 with a key";
    let no_zone = "an unknown time zone";
    let days = |days: i32| days.to_le_bytes().to_vec();
    let late = "a date outside of the years 1 to 9999";
    vec![
        one("a_date_in_the_year_0", years, late, ext::DATE, days(-719_163)),
        one("a_date_in_the_year_10000", years, late, ext::DATE, days(2_932_897)),
        one("a_datetime_past_the_years", years, NO_CLOCK, ext::DATETIME, moment(i64::MAX, 0, &[0])),
        one("a_time_of_the_next_day", day, NO_CLOCK, ext::TIME, moment(DAY, 0, &[0])),
        one("a_time_before_midnight", day, NO_CLOCK, ext::TIME, moment(-1, 0, &[0])),
        one("a_fold_of_2", fold, NO_CLOCK, ext::TIME, moment(0, 2, &[0])),
        one("an_unknown_zone", zone, no_zone, ext::TIME, moment(0, 0, &[4])),
        one("utc_with_a_name", zone, no_zone, ext::TIME, moment(0, 0, b"\x01UTC")),
        one(
            "an_offset_of_7_bytes",
            zone,
            "an extension that is too short",
            ext::TIME,
            moment(0, 0, &[2, 0, 0, 0, 0, 0, 0, 0]),
        ),
        one(
            "a_zone_a_day_from_utc",
            "a zone is less than a day from UTC",
            "a time zone a day or more from UTC",
            ext::TIME,
            moment(0, 0, &[&[2][..], &DAY.to_le_bytes()].concat()),
        ),
        one(
            "a_tzinfo_of_no_zone",
            "a tzinfo has a zone",
            "an invalid time zone",
            ext::TZINFO,
            vec![0],
        ),
    ]
}

fn strings() -> Vec<Vector> {
    const NOT: &str = "a string that is not UTF-8";
    let rule = "strings are UTF-8, without surrogates and in the shortest form";
    let text = |name, bytes: &'static [u8]| {
        vector(2, [name, rule, NOT], |t| {
            t.strs.push(bytes);
            t.nodes.set(0, node(kind::LIST, run(elem::STRS, 0), 1));
        })
    };
    let named = rooted(|t| object(t, registered(make::ATTRIBUTES), 1, 1));
    let named = replaced(&small(&named), b"point", b"po\xffnt");
    let field = rooted(|t| {
        let extra = t.classes.push(registered(make::ATTRIBUTES), [&b"field"[..]]);
        t.nodes.set(0, Node { extra, ..node(kind::OBJECT, run(elem::NONE, 0), 1) });
        t.bits.extend_zeros(1);
    });
    let field = replaced(&small(&field), b"field", b"fi\x80ld");
    let whole = |name, bytes| Vector { name, section: 2, rule, says: NOT, bytes };
    vec![
        text("a_text_of_a_lone_byte", b"ab\xff"),
        text("a_text_that_ends_early", b"ab\xe2\x98"),
        text("a_text_with_a_surrogate", b"\xed\xa0\x80"),
        text("a_text_in_a_longer_form", b"\xc0\x80"),
        vector(2, ["two_texts_that_share_a_letter", rule, NOT], |t| {
            // Together they are UTF-8.
            t.strs.push(b"a\xc3");
            t.strs.push(b"\xa9b");
            t.nodes.set(0, node(kind::LIST, run(elem::STRS, 0), 2));
        }),
        vector(
            6,
            [
                "half_a_surrogate",
                "a text with surrogates is UTF-8 that encodes them, too",
                "a string that is not UTF-8, even with surrogates",
            ],
            |t| extension(t, ext::SURROGATES, b"a\xed\xa0"),
        ),
        whole("a_class_name_that_is_no_text", named),
        whole("a_field_that_is_no_text", field),
        vector(6, ["a_decimal_that_is_no_text", rule, NOT], |t| {
            extension(t, ext::DECIMAL, b"\xff")
        }),
        vector(6, ["a_global_that_is_no_text", rule, NOT], |t| {
            extension(t, ext::GLOBAL, b"a:\xff")
        }),
        vector(2, ["a_dtype_that_is_no_text", rule, NOT], |t| {
            t.dtypes.push(b"<\xff8", 8);
            extension(t, ext::DTYPE, &[0; 4]);
        }),
    ]
}
