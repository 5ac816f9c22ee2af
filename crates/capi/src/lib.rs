//! The C ABI of Plasmon; its manual is `include/plasmon.h`.
//!
//! Here is only what a border needs: null checks, conversions, the code and the thread's last
//! error, and a stop for panics. Everything else is in `plasmon-client`.
//!
//! ```text
//! C ──► boundary::run ─┬─ arguments (null? text? number?) ─► plasmon_client ─► out parameters
//!                      ├─ Err ─► error::remember ─► its code
//!                      └─ panic ─► PLASMON_PANIC
//! ```

#![expect(non_camel_case_types, reason = "the types have the names that C sees")]
#![expect(clippy::missing_safety_doc, reason = "the header says what a caller must ensure")]

pub mod arguments;
pub mod boundary;
pub mod columns;
pub mod connecting;
pub mod describing;
pub mod error;
pub mod id;
pub mod reading;
pub mod subscribing;
pub mod waiting;
pub mod writing;
