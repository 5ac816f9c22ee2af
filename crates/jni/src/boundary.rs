//! The boundary of every native function: panics and errors become exceptions.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use jni::JNIEnv;
use jni::objects::{JThrowable, JValue};
use plasmon_client::Error;

/// The exception that every error becomes.
const EXCEPTION: &str = "org/plasmon/shuffle/StoreException";

/// The key of a fault of ours.
const PANIC: &str = "panic";

/// Why a function failed.
pub(crate) enum Failure {
    /// The store, or the way to it.
    Store(Error),
    /// The virtual machine. When it has thrown already, its exception stands.
    Java(jni::errors::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<jni::errors::Error> for Failure {
    fn from(error: jni::errors::Error) -> Self {
        Self::Java(error)
    }
}

/// Runs the body of a native function; when it fails, an exception is pending and Java never sees
/// the `fallback`.
pub(crate) fn run<'local, T>(
    env: &mut JNIEnv<'local>,
    fallback: T,
    body: impl FnOnce(&mut JNIEnv<'local>) -> Result<T, Failure>,
) -> T {
    // What the body touched is local to it or guarded by the client's own locks, which recover.
    let (key, message) = match catch_unwind(AssertUnwindSafe(|| body(env))) {
        Ok(Ok(value)) => return value,
        Ok(Err(Failure::Store(error))) => (error.code().key(), error.to_string()),
        Ok(Err(Failure::Java(error))) => ("bad_request", error.to_string()),
        Err(panic) => (PANIC, text_of(&*panic)),
    };
    throw(env, key, &message);
    fallback
}

/// Makes an exception pending. If even that fails, the machine is out of memory and has thrown.
fn throw(env: &mut JNIEnv<'_>, key: &str, message: &str) {
    if env.exception_check().unwrap_or(true) {
        return;
    }
    let made = || -> jni::errors::Result<()> {
        let (key, message) = (env.new_string(key)?, env.new_string(message)?);
        let arguments = [JValue::Object(&key), JValue::Object(&message)];
        let signature = "(Ljava/lang/String;Ljava/lang/String;)V";
        let exception = env.new_object(EXCEPTION, signature, &arguments)?;
        env.throw(JThrowable::from(exception))
    };
    let mut made = made;
    if made().is_err() && !env.exception_check().unwrap_or(true) {
        env.fatal_error("org.plasmon.shuffle.StoreException cannot be made");
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a bug in Plasmon's native library: {}", text.unwrap_or_default())
}
