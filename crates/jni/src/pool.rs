//! The native functions of `org.plasmon.shuffle.NativeStore` about the pool of several nodes.

use std::path::PathBuf;

use jni::JNIEnv;
use jni::objects::{JClass, JLongArray, JObject, JString};
use jni::sys::{jint, jlong, jobject};
use plasmon_client::{Code, Error};

use crate::boundary::run;
use crate::exports::{borrowed, milliseconds, text};
use crate::shuffle_store::ShuffleStore;

/// `defaultSocket0(): String`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_defaultSocket0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
) -> jobject {
    run(&mut env, JObject::null().into_raw(), |env| {
        let socket = plasmon_client::default_socket()?;
        Ok(env.new_string(socket.to_string_lossy())?.into_raw())
    })
}

/// `poolOf0(String socket, long timeoutMs): String`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_poolOf0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    socket: JString<'local>,
    timeout_ms: jlong,
) -> jobject {
    run(&mut env, JObject::null().into_raw(), |env| {
        let socket = PathBuf::from(text(env, &socket)?);
        let pool = ShuffleStore::pool_of(socket, milliseconds(timeout_ms))?;
        Ok(env.new_string(pool)?.into_raw())
    })
}

/// `slot0(long store): int`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_slot0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
) -> jint {
    run(&mut env, 0, |_| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        Ok(jint::from(unsafe { borrowed::<ShuffleStore>(store) }.slot()?))
    })
}

/// `nodes0(long store): String`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_nodes0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
) -> jobject {
    run(&mut env, JObject::null().into_raw(), |env| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let nodes = unsafe { borrowed::<ShuffleStore>(store) }.nodes()?;
        Ok(env.new_string(nodes)?.into_raw())
    })
}

/// `settle0(long store, int shuffle, long map, int runs)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_settle0<'local>(
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
        Ok(store.settle(shuffle, map, runs)?)
    });
}

/// `deleteEverywhere0(long store, int shuffle, long map): int`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_deleteEverywhere0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    shuffle: jint,
    map: jlong,
) -> jint {
    run(&mut env, 0, |_| {
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        Ok(jint::try_from(store.delete_everywhere(shuffle, map)?).unwrap_or(jint::MAX))
    })
}

/// How many numbers stand for one output: attempt, slot and number of runs.
const NUMBERS: usize = 3;

/// The output that these numbers stand for; `None` for numbers that no output has.
fn output_of(numbers: &[jlong]) -> Option<(i64, u16, i32)> {
    let &[map, slot, runs] = numbers else { return None };
    Some((map, u16::try_from(slot).ok()?, i32::try_from(runs).ok().filter(|runs| *runs >= 0)?))
}

/// `demoteOutputs0(long store, int shuffle, long[] outputs)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_NativeStore_demoteOutputs0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    shuffle: jint,
    outputs: JLongArray<'local>,
) {
    run(&mut env, (), |env| {
        let count = usize::try_from(env.get_array_length(&outputs)?).unwrap_or(0);
        let mut numbers = vec![0; count];
        env.get_long_array_region(&outputs, 0, &mut numbers)?;
        let outputs = numbers.chunks(NUMBERS).map(output_of).collect::<Option<Vec<_>>>();
        let invalid = || Error::new(Code::BadRequest, "marking outputs of a shuffle as unused");
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        Ok(store.demote_outputs(shuffle, &outputs.ok_or_else(invalid)?)?)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_java_are_outputs_unless_no_output_has_them() {
        assert_eq!(output_of(&[1 << 40, 2, 3]), Some((1 << 40, 2, 3)));
        assert_eq!(output_of(&[7, 2, 0]), Some((7, 2, 0)));
        for wrong in [[7, -1, 3], [7, 1 << 16, 3], [7, 2, -1], [7, 2, 1 << 31]] {
            assert_eq!(output_of(&wrong), None, "{wrong:?}");
        }
        assert_eq!(output_of(&[7, 2]), None);
    }
}
