//! Calls that failed while their session went on: the program may have handled the error.

use crate::codec::column::{Fields, Row, put};
use crate::error::Code;

/// An error that a call of a request met; its session went on. A row of 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallError {
    /// Index of the request's report in its message.
    pub report: u64,
    /// Time of the call, nanoseconds since 1970. It may be before the request.
    pub at: u64,
    /// Number of failed calls that it stands for.
    pub count: u32,
    /// The code.
    pub code: Code,
    /// Bytes of its words.
    pub words: u16,
}

impl Row for CallError {
    const SIZE: usize = 24;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.report, self.at]);
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.code.number().to_le_bytes());
        out.extend_from_slice(&self.words.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (report, at) = (fields.u64()?, fields.u64()?);
        let (count, code, words) = (fields.u32()?, fields.u16()?, fields.u16()?);
        (count > 0).then_some(Self {
            report,
            at,
            count,
            code: Code::from_number(code),
            words,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stands_for_one_call_at_least() {
        let good = CallError {
            report: 1,
            at: 2,
            count: 3,
            code: Code::Quota,
            words: 4,
        };
        for (error, read) in [(good, Some(good)), (CallError { count: 0, ..good }, None)] {
            let mut out = Vec::new();
            error.write(&mut out);
            assert_eq!(out.len(), CallError::SIZE);
            assert_eq!(CallError::read(&out), read);
        }
    }
}
