//! How commands reach the running store.

use anyhow::Result;
use plasmon_client::{Client, Code, ConnectOptions};

use crate::arguments::Arguments;
use crate::failure::NoStore;

/// The options of a connection as the arguments ask for it.
pub(super) fn options(arguments: &Arguments) -> ConnectOptions {
    ConnectOptions {
        socket: arguments.socket.clone(),
        name: "plasmon command".to_owned(),
        ..ConnectOptions::default()
    }
}

/// Connects to the running store. Only `start` starts one.
pub(super) fn connect(arguments: &Arguments) -> Result<Client> {
    Client::connect(&options(arguments)).map_err(|error| {
        if error.code() != Code::Disconnected {
            return error.into();
        }
        let socket = arguments.socket.clone().or_else(|| plasmon_client::default_socket().ok());
        let place = socket.unwrap_or_default();
        NoStore(format!(
            "no store runs at {}: `plasmon start` starts one, --socket names another",
            place.display()
        ))
        .into()
    })
}
