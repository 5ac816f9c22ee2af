//! The native functions of `org.plasmon.shuffle.NativeStore` about the pool of several nodes.

use std::path::PathBuf;

use jni::JNIEnv;
use jni::objects::{JClass, JObject, JString};
use jni::sys::{jint, jlong, jobject};

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
