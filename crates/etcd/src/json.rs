//! What the gateway makes of etcd's messages: bytes as base64, numbers of 64 bits as strings, and
//! fields that have their default left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Bytes as a string of an answer or a question.
pub(crate) fn bytes(bytes: &[u8]) -> Value {
    Value::String(STANDARD.encode(bytes))
}

/// A number as a string.
pub(crate) fn number(number: i64) -> Value {
    Value::String(number.to_string())
}

/// The bytes of a field, empty when it is left out; `None` when it is not base64.
pub(crate) fn bytes_of(message: &Value, field: &str) -> Option<Vec<u8>> {
    match &message[field] {
        Value::Null => Some(Vec::new()),
        Value::String(text) => STANDARD.decode(text).ok(),
        _ => None,
    }
}

/// The number of a field, 0 when it is left out; `None` when it is not a number.
pub(crate) fn number_of(message: &Value, field: &str) -> Option<i64> {
    match &message[field] {
        Value::Null => Some(0),
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

/// The elements of a field, without any when it is left out.
pub(crate) fn list_of<'a>(message: &'a Value, field: &str) -> &'a [Value] {
    message[field].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_are_left_out_have_their_default() {
        assert_eq!(bytes_of(&json!({}), "key"), Some(Vec::new()));
        assert_eq!(number_of(&json!({}), "ID"), Some(0));
        assert!(list_of(&json!({}), "kvs").is_empty());
    }

    #[test]
    fn fields_come_back_and_others_are_refused() {
        let message = json!({ "key": bytes(b"\0\xff"), "ID": number(i64::MIN), "TTL": 3 });
        assert_eq!(bytes_of(&message, "key"), Some(b"\0\xff".to_vec()));
        assert_eq!(number_of(&message, "ID"), Some(i64::MIN));
        assert_eq!(number_of(&message, "TTL"), Some(3));
        let wrong = json!({ "key": "?", "ID": "x", "value": 1, "TTL": [] });
        assert_eq!((bytes_of(&wrong, "key"), bytes_of(&wrong, "value")), (None, None));
        assert_eq!((number_of(&wrong, "ID"), number_of(&wrong, "TTL")), (None, None));
    }
}
