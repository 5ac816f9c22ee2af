//! The native functions of `org.plasmon.shuffle.NativeStore`, in the order of its declarations.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use jni::JNIEnv;
use jni::objects::{JByteBuffer, JClass, JLongArray, JObject, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong, jobject, jsize};
use plasmon_client::{Buffer, Code, Error, ObjectReader, Writer};

use crate::boundary::{Failure, run};
use crate::shuffle_store::{Place, RunId, ShuffleStore};

/// The most bytes that one `ByteBuffer` covers.
const BUFFER_BYTES_MAX: u64 = i32::MAX as u64;

pub(crate) fn text(env: &mut JNIEnv<'_>, string: &JString<'_>) -> Result<String, Failure> {
    Ok(env.get_string(string)?.into())
}

pub(crate) fn milliseconds(number: jlong) -> Duration {
    Duration::from_millis(u64::try_from(number).unwrap_or(0))
}

/// Hands a value to Java, which gives it back to `taken` once.
pub(crate) fn lent<T>(value: T) -> jlong {
    Box::into_raw(Box::new(value)) as jlong
}

/// Looks at a value that Java holds.
///
/// # Safety
///
/// `number` is what [`lent`] gave for a `T` that was not [`taken`] back.
pub(crate) unsafe fn borrowed<'a, T>(number: jlong) -> &'a T {
    debug_assert_ne!(number, 0, "Java passed an unknown handle");
    // SAFETY: the pointer comes from a box that is not freed yet, as the caller ensures.
    unsafe { &*(number as *const T) }
}

/// Takes a value back from Java.
///
/// # Safety
///
/// `number` is what [`lent`] gave for a `T`, and is not used elsewhere during or after this call.
pub(crate) unsafe fn taken<T>(number: jlong) -> Box<T> {
    debug_assert_ne!(number, 0, "Java passed an unknown handle");
    // SAFETY: the pointer comes from a box that is not used elsewhere, as the caller ensures.
    unsafe { Box::from_raw(number as *mut T) }
}

/// A `ByteBuffer` over foreign memory.
///
/// # Safety
///
/// The memory stays where it is until Java's owner of the buffer gives up what holds it.
unsafe fn buffer_over<'local>(
    env: &mut JNIEnv<'local>,
    address: *mut u8,
    bytes: usize,
) -> Result<JByteBuffer<'local>, Failure> {
    if bytes as u64 > BUFFER_BYTES_MAX {
        let error = Error::new(Code::LimitReached, "lending memory to Java");
        return Err(error.with_amounts(bytes as u64, BUFFER_BYTES_MAX).into());
    }
    // SAFETY: the caller ensures that the memory outlives the buffer's use.
    Ok(unsafe { env.new_direct_byte_buffer(address, bytes) }?)
}

/// `connect0(String[] words, int copies, long timeoutMs, boolean awaits): long`; the words are
/// socket, client, namespace and the namespace of what this process alone needs.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_connect0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    words: JObjectArray<'local>,
    copies: jint,
    timeout_ms: jlong,
    awaits: jboolean,
) -> jlong {
    run(&mut env, 0, |env| {
        let mut word = |at| {
            let word = JString::from(env.get_object_array_element(&words, at)?);
            text(env, &word)
        };
        let (socket, client) = (word(0)?, word(1)?);
        let copies = u8::try_from(copies).unwrap_or(u8::MAX);
        let place = Place { namespace: word(2)?, scratch: word(3)?, copies };
        let (timeout, awaits) = (milliseconds(timeout_ms), awaits != 0);
        Ok(lent(ShuffleStore::connect(socket.into(), client, place, timeout, awaits)?))
    })
}

/// `start0(String daemon, String[] keysAndValues): long`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_start0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    daemon: JString<'local>,
    keys_and_values: JObjectArray<'local>,
) -> jlong {
    run(&mut env, 0, |env| {
        let daemon = PathBuf::from(text(env, &daemon)?);
        let mut words = Vec::new();
        for at in 0..env.get_array_length(&keys_and_values)? {
            let word = JString::from(env.get_object_array_element(&keys_and_values, at)?);
            words.push(text(env, &word)?);
        }
        let pairs = words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        Ok(jlong::from(ShuffleStore::start(daemon, pairs.collect())?))
    })
}

/// `adopt0(long store, long quotaBytes)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_adopt0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    quota_bytes: jlong,
) {
    run(&mut env, (), |_| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        Ok(store.adopt(u64::try_from(quota_bytes).unwrap_or(0))?)
    });
}

/// `create0(long store, long shuffleAndRun, long map, long bytes): long`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_create0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    shuffle_and_run: jlong,
    map: jlong,
    bytes: jlong,
) -> jlong {
    run(&mut env, 0, |_| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        let id = RunId::packed(shuffle_and_run, map);
        Ok(lent(store.create(id, u64::try_from(bytes).unwrap_or(u64::MAX))?))
    })
}

/// `memory0(long writer): ByteBuffer`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_memory0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    writer: jlong,
) -> jobject {
    run(&mut env, JObject::null().into_raw(), |env| {
        // SAFETY: Java's class for writers owns it and is the only one to use it, by one thread.
        let writer = unsafe { &mut *(writer as *mut Writer) };
        let (address, bytes) = (writer.as_mut_ptr(), writer.len());
        // SAFETY: the memory is the writer's until it is sealed or aborted, and Java's class for
        // writers gives the buffer up before either.
        Ok(unsafe { buffer_over(env, address, bytes) }?.into_raw())
    })
}

/// `seal0(long writer)`; the writer is gone afterwards, also when this fails.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_seal0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    writer: jlong,
) {
    run(&mut env, (), |_| {
        // SAFETY: Java's class for writers forgets the number before it calls this.
        let writer = unsafe { taken::<Writer>(writer) };
        writer.seal()?;
        Ok(())
    });
}

/// `abort0(long writer)`; the writer is gone afterwards, also when this fails.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_abort0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    writer: jlong,
) {
    run(&mut env, (), |_| {
        // SAFETY: Java's class for writers forgets the number before it calls this.
        let writer = unsafe { taken::<Writer>(writer) };
        writer.abort()?;
        Ok(())
    });
}

/// `open0(long store, long shuffleAndRun, long map, long[] pin): ByteBuffer`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_open0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    shuffle_and_run: jlong,
    map: jlong,
    pin: JLongArray<'local>,
) -> jobject {
    run(&mut env, JObject::null().into_raw(), |env| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        let found = store.open(RunId::packed(shuffle_and_run, map))?;
        lend_pin(env, found, &pin)
    })
}

/// `openInMemory0(long store, long shuffleAndRun, long map, long[] pin): ByteBuffer`, null for a
/// run that is not in memory.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_openInMemory0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    shuffle_and_run: jlong,
    map: jlong,
    pin: JLongArray<'local>,
) -> jobject {
    run(&mut env, JObject::null().into_raw(), |env| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        match store.open_in_memory(RunId::packed(shuffle_and_run, map))? {
            Some(found) => lend_pin(env, found, &pin),
            None => Ok(JObject::null().into_raw()),
        }
    })
}

/// Hands a pin to Java, and the memory that it holds.
fn lend_pin(env: &mut JNIEnv<'_>, found: Buffer, pin: &JLongArray<'_>) -> Result<jobject, Failure> {
    let all = 0..found.data().len();
    lend_part(env, (found, all), pin)
}

/// Hands a pin to Java, and a part of the memory that it holds.
pub(crate) fn lend_part(
    env: &mut JNIEnv<'_>,
    (found, part): (Buffer, Range<usize>),
    pin: &JLongArray<'_>,
) -> Result<jobject, Failure> {
    let memory = &found.data()[part];
    let (address, bytes) = (memory.as_ptr().cast_mut(), memory.len());
    // SAFETY: the pin holds the memory, and Java's class for pins gives the buffer up before it
    // releases the pin. The buffer is not written to: that class lends it read-only.
    let buffer = unsafe { buffer_over(env, address, bytes) }?;
    let pinned = lent::<Buffer>(found);
    if let Err(error) = env.set_long_array_region(pin, 0, &[pinned]) {
        // SAFETY: Java never saw the number.
        drop(unsafe { taken::<Buffer>(pinned) });
        return Err(error.into());
    }
    Ok(buffer.into_raw())
}

/// `openPieces0(long store, long shuffleAndRun, long map, long[] bytesAndPlace): long`; the place
/// is 1 for a file and 0 for memory.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_openPieces0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    shuffle_and_run: jlong,
    map: jlong,
    bytes_and_place: JLongArray<'local>,
) -> jlong {
    run(&mut env, 0, |env| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        let reader = store.open_pieces(RunId::packed(shuffle_and_run, map))?;
        let length = jlong::try_from(reader.bytes()).unwrap_or(jlong::MAX);
        let place = jlong::from(reader.is_in_file());
        env.set_long_array_region(&bytes_and_place, 0, &[length, place])?;
        Ok(lent::<ObjectReader>(reader))
    })
}

/// `readPiece0(long reader, long offset, ByteBuffer into)`: fills the direct buffer from its first
/// byte to its last, whatever its position.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_readPiece0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    reader: jlong,
    offset: jlong,
    into: JByteBuffer<'local>,
) {
    run(&mut env, (), |env| {
        let bytes = env.get_direct_buffer_capacity(&into)?;
        let address = env.get_direct_buffer_address(&into)?;
        // SAFETY: this is the memory of the direct buffer, which Java's class for readers passes
        // while no other thread looks at it, and which lives as long as the local reference.
        let into = unsafe { std::slice::from_raw_parts_mut(address, bytes) };
        // A negative offset is beyond every object.
        let offset = u64::try_from(offset).unwrap_or(u64::MAX);
        // SAFETY: Java's class for readers owns it, and closes it after its last call has returned.
        Ok(unsafe { borrowed::<ObjectReader>(reader) }.read_at(offset, into)?)
    });
}

/// `closePieces0(long reader)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_closePieces0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    reader: jlong,
) {
    run(&mut env, (), |_| {
        // SAFETY: Java's class for readers forgets the number before it calls this.
        drop(unsafe { taken::<ObjectReader>(reader) });
        Ok(())
    });
}

/// `release0(long pin)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_release0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    pin: jlong,
) {
    run(&mut env, (), |_| {
        // SAFETY: Java's class for pins forgets the number before it calls this.
        drop(unsafe { taken::<Buffer>(pin) });
        Ok(())
    });
}

/// `deleteAttempt0(long store, int shuffle, long map, int runs)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_deleteAttempt0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    shuffle: jint,
    map: jlong,
    runs: jint,
) {
    run(&mut env, (), |_| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        Ok(store.delete_attempt(shuffle, map, runs)?)
    });
}

/// `deleteShuffle0(long store, int shuffle): int`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_deleteShuffle0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    shuffle: jint,
) -> jint {
    run(&mut env, 0, |_| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        Ok(jint::try_from(store.delete_shuffle(shuffle)?).unwrap_or(jint::MAX))
    })
}

/// `demoteShuffle0(long store, int shuffle): long`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_demoteShuffle0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    shuffle: jint,
) -> jlong {
    run(&mut env, 0, |_| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        Ok(jlong::try_from(store.demote_shuffle(shuffle)?).unwrap_or(jlong::MAX))
    })
}

/// `deleteApplication0(long store): int`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_deleteApplication0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
) -> jint {
    run(&mut env, 0, |_| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        Ok(jint::try_from(store.delete_application()?).unwrap_or(jint::MAX))
    })
}

/// `figures0(long store, long[] figures)`: capacity, used and spilled bytes, objects in memory, the
/// daemon's process, bytes ever spilled and ever brought back, objects in files.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_figures0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    figures: JLongArray<'local>,
) {
    run(&mut env, (), |env| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        let status = store.status()?;
        let numbers = [
            status.capacity_bytes,
            status.used_bytes,
            status.spilled_bytes,
            status.objects,
            u64::from(status.pid),
            status.spill_written_bytes_total,
            status.spill_read_bytes_total,
            status.spilled,
        ];
        let numbers = numbers.map(|number| jlong::try_from(number).unwrap_or(jlong::MAX));
        let first: jsize = 0;
        Ok(env.set_long_array_region(&figures, first, &numbers)?)
    });
}

/// `disconnect0(long store)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_disconnect0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
) {
    run(&mut env, (), |_| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        unsafe { borrowed::<ShuffleStore>(store) }.disconnect();
        Ok(())
    });
}

/// `shutdown0(long store)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_shutdown0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
) {
    run(&mut env, (), |_| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        Ok(unsafe { borrowed::<ShuffleStore>(store) }.shutdown()?)
    });
}

/// `memoryLimit0(): long`: bytes, 0 for no limit.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_memoryLimit0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
) -> jlong {
    run(&mut env, 0, |_| {
        let limit = plasmon_client::memory_limit_bytes().unwrap_or(0);
        Ok(jlong::try_from(limit).unwrap_or(jlong::MAX))
    })
}
