//! Puts an object, reads it in place, waits for one that another thread makes.
//!
//! Uses the running store of this user, or starts one (`plasmond` must be in `PATH`, beside this
//! program, or named by `PLASMON_DAEMON`).

use std::thread;
use std::time::Duration;

use plasmon_client::{Client, Code, ConnectOptions, Name, PutOptions, Result, StartOptions};

fn main() -> Result<()> {
    let store = Client::connect_or_start(&ConnectOptions::default(), &StartOptions::default())?;

    // Without an id of ours, a put returns while the object is on its way.
    let id = store.put(b"read where it lies", &PutOptions::default())?;
    let buffer = store.get(&id, None)?;
    assert_eq!(buffer.data(), b"read where it lies");

    // The same without any system call, reference count or allocation.
    let pinned = store.get_now(&id).expect("it is sealed and in memory");
    assert_eq!(pinned.data().as_ptr(), buffer.data().as_ptr(), "both look at the same memory");
    drop(pinned);

    // A name is an id: a process that knows it needs no message to find the object.
    let name = Name::new("examples", "answer").expect("a short text without control characters");
    thread::scope(|scope| {
        let reader = scope.spawn(|| store.get_named(&name, Some(Duration::from_secs(60))));
        let options = PutOptions { name: Some(name.clone()), ..PutOptions::default() };
        let mut writer = store.create(8, &options)?;
        writer.copy_from_slice(&42u64.to_le_bytes());
        writer.seal()?;
        let answer = reader.join().expect("the reader does not panic")?;
        assert_eq!(answer.data(), 42u64.to_le_bytes());
        Ok(())
    })?;

    // Deleting hides an object; a reader that has it keeps it.
    store.delete(&[id, name.id()])?;
    assert_eq!(buffer.data(), b"read where it lies");
    let error = store.get(&id, Some(Duration::ZERO)).expect_err("it was deleted");
    assert_eq!(error.code(), Code::Deleted);
    Ok(())
}
