//! A subscription to a namespace of the pool, at the socket of the pool daemon.

use std::path::Path;
use std::time::Duration;

use plasmon_proto::Code;
use plasmon_proto::frame::{self, FromDaemon};
use plasmon_proto::id::POOLED_PREFIX;
use plasmon_proto::message::{Filter, Reply};
use plasmon_proto::pool_admin::Request;
use plasmon_proto::pool_notice::NamesFilter;
use plasmon_shm::deadline::Deadline;
use plasmon_shm::edge;
use plasmon_shm::socket::Connection;

use crate::error::{Error, Result};
use crate::frame_reader::await_message;
use crate::interrupt;
use crate::options::ConnectOptions;
use crate::pool::Door;

const SUBSCRIBING: &str = "subscribing to a namespace of the pool";
const NUMBER: u64 = 1;

/// The pause before the next try.
const PAUSE: Duration = Duration::from_millis(20);

/// What of a filter the pool daemon is asked for; `None`: it is the store's.
pub(crate) fn pooled(filter: &Filter) -> Option<NamesFilter> {
    let namespace = filter.namespace.clone().filter(|it| it.starts_with(POOLED_PREFIX))?;
    Some(NamesFilter { namespace, prefix: filter.prefix.clone().unwrap_or_default() })
}

/// Connects and subscribes, however many pool daemons go away in between.
pub(crate) fn subscribe(
    store: &Path,
    options: &ConnectOptions,
    filter: &NamesFilter,
    own: Deadline,
) -> Result<Connection> {
    if !filter.keeps_limits() {
        let detail = "the filter is longer than any name, so it matches nothing";
        return Err(Error::new(Code::LimitReached, SUBSCRIBING).with_detail(detail));
    }
    let until = Deadline::after(options.reconnect_timeout);
    loop {
        let error = match subscribe_once(store, filter, own) {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        interrupt::check(SUBSCRIBING)?;
        if own.is_past() {
            return Err(Error::new(Code::TimedOut, SUBSCRIBING));
        }
        if error.code() != Code::Unreachable || until.is_past() {
            return Err(error);
        }
        edge::sleep(interrupt::pause(PAUSE, own));
    }
}

fn subscribe_once(store: &Path, filter: &NamesFilter, own: Deadline) -> Result<Connection> {
    let of_frame = |bad| Error::of_frame(SUBSCRIBING, &bad);
    let connection = Door::open(store, SUBSCRIBING)?.into_connection();
    let request = Request::Subscribe(filter.clone());
    let request = frame::encode_admin_request(NUMBER, &request).map_err(of_frame)?;
    let away = || Error::new(Code::Unreachable, SUBSCRIBING);
    connection.send(&request, &[]).map_err(|_| away())?;
    if !await_message(&connection, SUBSCRIBING, own)? {
        return Err(Error::new(Code::TimedOut, SUBSCRIBING));
    }
    let mut bytes = Vec::new();
    let received = connection.recv(&mut bytes, true).map_err(|_| away())?;
    if received.bytes == 0 {
        return Err(away());
    }
    match frame::decode_from_daemon(&bytes).map_err(of_frame)? {
        FromDaemon::Reply(NUMBER, Reply::Done) => Ok(connection),
        FromDaemon::Reply(_, Reply::Failed(failure)) => {
            Err(Error::of_failure(SUBSCRIBING, failure))
        }
        _ => Err(Error::unexpected(SUBSCRIBING)),
    }
}
