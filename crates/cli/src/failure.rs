//! From errors to exit codes.

use plasmon_client::Error;
use plasmon_proto::Code;

/// The process's exit code for this error; see the table in `main.rs`.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    let code = error.chain().find_map(|cause| {
        let of_columns = || cause.downcast_ref::<plasmon_columns::Error>().map(|it| it.code());
        cause.downcast_ref::<Error>().map(Error::code).or_else(of_columns)
    });
    match code {
        Some(Code::Disconnected) => 3,
        Some(Code::Absent | Code::Evicted | Code::Deleted | Code::CreatorDied | Code::TimedOut) => {
            4
        }
        Some(Code::StoreFull | Code::QuotaExceeded | Code::TooLarge) => 5,
        _ => 1,
    }
}

/// Whether the reader of our output went away, which is no failure of ours.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
