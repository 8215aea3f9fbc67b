//! The budget of a decoded message: its owned texts, lists and rows together take no more memory
//! than the message has bytes, whatever its headers claim.

use std::cell::Cell;

thread_local! {
    /// Bytes that the message being decoded may still own. `None` outside a message: lists of a
    /// recorded seal's answer or of a settings file grow with the data that is there.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Decodes a message of `bytes` bytes.
pub(crate) fn within<T>(bytes: usize, decode: impl FnOnce() -> T) -> T {
    LEFT.set(Some(bytes));
    let decoded = decode();
    LEFT.set(None);
    decoded
}

/// Charges `count` items of `size` bytes before they are read. True if a message bounds them.
fn charge<E: serde::de::Error>(count: usize, size: usize) -> Result<bool, E> {
    let Some(left) = LEFT.get() else {
        return Ok(false);
    };
    let rest = count
        .checked_mul(size)
        .and_then(|bytes| left.checked_sub(bytes))
        .ok_or_else(|| E::custom("more than its message has room for"))?;
    LEFT.set(Some(rest));
    Ok(true)
}

/// Texts for people, and names.
pub(crate) mod text {
    use std::fmt;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::{Serialize, Serializer};

    use super::charge;

    pub(crate) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        text.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<String, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = String;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
                charge(text.len(), 1)?;
                Ok(text.to_owned())
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// Lists with items that take more bytes by field name than in memory. Shorter forms of the items,
/// which no sender writes, are refused.
pub(crate) mod list {
    use std::fmt;
    use std::marker::PhantomData;

    use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
    use serde::{Serialize, Serializer};

    use super::charge;

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        list: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        list.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        struct Items<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
                let mut list = Vec::new();
                let claimed = seq.size_hint().unwrap_or(0);
                if charge::<A::Error>(claimed, size_of::<T>())? {
                    list.reserve_exact(claimed);
                }
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Items(PhantomData))
    }
}

/// Rows packed as a [`Column`](crate::Column), owned.
pub(crate) mod rows {
    use std::fmt;
    use std::marker::PhantomData;

    use serde::Serializer;
    use serde::de::{Deserializer, Error, Visitor};

    use super::charge;
    use crate::codec::column::{Column, Row};

    pub(crate) fn serialize<R: Row, S: Serializer>(
        rows: &[R],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut packed = Vec::with_capacity(rows.len() * R::SIZE);
        rows.iter().for_each(|row| row.write(&mut packed));
        serializer.serialize_bytes(&packed)
    }

    pub(crate) fn deserialize<'de, R: Row, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<R>, D::Error> {
        struct Packed<R>(PhantomData<R>);

        impl<R: Row> Visitor<'_> for Packed<R> {
            type Value = Vec<R>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "rows of {} bytes", R::SIZE)
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<R>, E> {
                const { assert!(size_of::<R>() <= R::SIZE, "a row is no larger in memory") };
                let column = Column::<R>::checked(bytes)?;
                charge(column.len(), size_of::<R>())?;
                Ok(column.iter().collect())
            }
        }

        deserializer.deserialize_bytes(Packed(PhantomData))
    }
}
