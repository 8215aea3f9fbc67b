//! Packed columns: rows of a fixed number of little-endian bytes, borrowed from the message.

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::address::Window;
use crate::id::{GpuId, Incarnation, SessionId, Tenant};

/// A row of a column: plain data of `SIZE` bytes.
pub trait Row: Sized {
    /// Size of one row in bytes.
    const SIZE: usize;

    /// Appends exactly `SIZE` bytes.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads a row from exactly `SIZE` bytes; `None` if a field is invalid.
    fn read(bytes: &[u8]) -> Option<Self>;
}

/// Rows as packed in a message. A column with a partial row or an invalid row does not decode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Column<'a, R> {
    bytes: &'a [u8],
    row: PhantomData<R>,
}

impl<'a, R: Row> Column<'a, R> {
    /// Creates a column over packed bytes, and checks each row.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let whole = bytes.len().is_multiple_of(R::SIZE);
        let valid = whole
            && bytes
                .chunks_exact(R::SIZE)
                .all(|row| R::read(row).is_some());
        valid.then_some(Self {
            bytes,
            row: PhantomData,
        })
    }

    /// As [`Column::new`], with the error of a message with an invalid column.
    pub(crate) fn checked<E: serde::de::Error>(bytes: &'a [u8]) -> Result<Self, E> {
        Self::new(bytes).ok_or_else(|| {
            E::custom(format_args!(
                "{} bytes are not whole, meaningful rows of {} bytes",
                bytes.len(),
                R::SIZE
            ))
        })
    }

    /// Packs rows into `out`, which is cleared first. The rows are not checked. A row that
    /// [`Row::read`] refuses makes a column that no receiver decodes, and that panics when
    /// iterated.
    pub fn pack<'r>(rows: impl IntoIterator<Item = &'r R>, out: &'a mut Vec<u8>) -> Self
    where
        R: 'r,
    {
        out.clear();
        rows.into_iter().for_each(|row| row.write(out));
        Self {
            bytes: out,
            row: PhantomData,
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / R::SIZE
    }

    /// True if the column has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Iterates over the rows in order.
    #[expect(
        clippy::expect_used,
        reason = "every row was read once, or was written by `pack`, by us; to skip one would shift those behind it"
    )]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = R> + 'a {
        self.bytes.chunks_exact(R::SIZE).map(|row| {
            R::read(row).expect("every row was read or written when the column was made")
        })
    }
}

impl<R> Default for Column<'_, R> {
    fn default() -> Self {
        Self {
            bytes: &[],
            row: PhantomData,
        }
    }
}

impl<R: Row + fmt::Debug> fmt::Debug for Column<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<R> Serialize for Column<'_, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.bytes)
    }
}

impl<'de: 'a, 'a, R: Row> Deserialize<'de> for Column<'a, R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes: &'a [u8] = serde_bytes::deserialize(deserializer)?;
        Self::checked(bytes)
    }
}

/// Appends little-endian fields to a row.
pub(crate) fn put<const N: usize>(out: &mut Vec<u8>, fields: &[u64; N]) {
    out.extend_from_slice(fields.map(u64::to_le_bytes).as_flattened());
}

/// Little-endian fields of a row, read one after the other.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (value, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*value)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn tenant(&mut self) -> Option<Tenant> {
        Tenant::from_padded(self.array()?)
    }

    #[inline]
    pub(crate) fn window(&mut self) -> Option<Window> {
        let (base, size) = (self.u64()?, self.u64()?);
        Some(Window { base, size })
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (value, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*value)
    }
}

/// One session.
impl Row for SessionId {
    const SIZE: usize = 8;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Fields(bytes).u64().map(Self)
    }
}

/// One worker.
impl Row for Incarnation {
    const SIZE: usize = 8;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Fields(bytes).u64().map(Self)
    }
}

/// One device.
impl Row for GpuId {
    const SIZE: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Fields(bytes).u32()
    }
}

/// One tenant.
impl Row for Tenant {
    const SIZE: usize = 32;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.padded());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Fields(bytes).tenant()
    }
}

/// A tenant and its highest ordinal so far.
impl Row for (Tenant, u64) {
    const SIZE: usize = 40;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.padded());
        out.extend_from_slice(&self.1.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some((fields.tenant()?, fields.u64()?))
    }
}
