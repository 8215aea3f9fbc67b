//! Attributes of spans and events.

use std::borrow::Cow;

use telemetry::Attribute;

/// An attribute with a number.
pub(crate) fn number(name: &'static str, value: u64) -> (Cow<'static, str>, Attribute) {
    (Cow::Borrowed(name), Attribute::Number(value))
}

/// An attribute with a text.
pub(crate) fn text(name: &'static str, value: &str) -> (Cow<'static, str>, Attribute) {
    (Cow::Borrowed(name), Attribute::Text(value.to_owned()))
}
