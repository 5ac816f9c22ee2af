//! The name of a setting as a flag and in the environment.

/// The flag of a key, without the dashes before it.
pub fn flag_of(key: &str) -> String {
    key.replace('_', "-")
}

/// The environment variable of a key.
pub fn variable_of(key: &str) -> String {
    format!("PLASMON_{}", key.to_ascii_uppercase())
}
