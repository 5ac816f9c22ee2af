//! The native functions of `org.plasmon.shuffle.Gather`: parts of runs of all nodes of a pool.

use jni::JNIEnv;
use jni::objects::{JClass, JLongArray, JObject};
use jni::sys::{jlong, jobject};
use plasmon_client::{Code, Error, PartsGather};

use crate::boundary::run;
use crate::exports::{borrowed, lend_part, lent, taken};
use crate::shuffle_store::{RunId, ShuffleStore, WantedPart};

/// How many numbers stand for one part: shuffle and run, attempt, slot, start and end.
const NUMBERS: usize = 5;

/// The part that these numbers stand for; `None` for numbers that no part has.
fn part_of(numbers: &[jlong]) -> Option<WantedPart> {
    let &[shuffle_and_run, map, slot, start, end] = numbers else { return None };
    let run = RunId::packed(shuffle_and_run, map);
    let slot = u16::try_from(slot).ok()?;
    Some(WantedPart { run, slot, start: start.try_into().ok()?, end: end.try_into().ok()? })
}

/// `begin0(long store, long[] wanted, long bytesAhead): long`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_Gather_begin0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    store: jlong,
    wanted: JLongArray<'local>,
    bytes_ahead: jlong,
) -> jlong {
    run(&mut env, 0, |env| {
        let count = usize::try_from(env.get_array_length(&wanted)?).unwrap_or(0);
        let mut numbers = vec![0; count];
        env.get_long_array_region(&wanted, 0, &mut numbers)?;
        let parts = numbers.chunks(NUMBERS).map(part_of).collect::<Option<Vec<_>>>();
        let parts = parts.ok_or_else(|| Error::new(Code::BadRequest, "gathering parts of runs"))?;
        // SAFETY: stores are never taken back, and Java passes the number of one.
        let store = unsafe { borrowed::<ShuffleStore>(store) };
        let gather = store.gather(&parts, u64::try_from(bytes_ahead).unwrap_or(0))?;
        Ok(lent::<PartsGather>(gather))
    })
}

/// `next0(long gather, long[] pin): ByteBuffer`: the next part, in the order asked for; null for
/// one without bytes.
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_Gather_next0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    gather: jlong,
    pin: JLongArray<'local>,
) -> jobject {
    run(&mut env, JObject::null().into_raw(), |env| {
        // SAFETY: Java's class for gathers owns it and is the only one to use it, by one thread.
        let gather = unsafe { &mut *(gather as *mut PartsGather) };
        let ended = || Error::new(Code::BadRequest, "taking a part after the last one");
        let pieces = gather.next().ok_or_else(ended)??;
        match pieces.first().and_then(|piece| piece.place()) {
            Some((buffer, part)) => lend_part(env, (buffer.clone(), part), &pin),
            None => Ok(JObject::null().into_raw()),
        }
    })
}

/// `end0(long gather)`
#[unsafe(no_mangle)]
pub extern "system" fn Java_org_plasmon_shuffle_Gather_end0<'local>(
    mut env: JNIEnv<'local>,
    _class: JClass<'local>,
    gather: jlong,
) {
    run(&mut env, (), |_| {
        // SAFETY: Java's class for gathers forgets the number before it calls this.
        drop(unsafe { taken::<PartsGather>(gather) });
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_java_are_parts_unless_no_part_has_them() {
        let run = RunId { shuffle: 7, map: 1 << 40, run: 3 };
        let numbers = [(7 << 32) | 3, 1 << 40, 2, 64, 80];
        let part = WantedPart { run, slot: 2, start: 64, end: 80 };
        assert_eq!(part_of(&numbers), Some(part));
        for (at, wrong) in [(2, -1), (2, 1 << 16), (3, -1), (4, i64::MIN)] {
            let mut numbers = numbers;
            numbers[at] = wrong;
            assert_eq!(part_of(&numbers), None, "{at}");
        }
        assert_eq!(part_of(&numbers[..4]), None);
    }
}
