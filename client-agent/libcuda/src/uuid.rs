//! UUIDs of devices and of tables: their bytes are in the order of their text.

pub(crate) use client_session::uuid_text as text;

pub(crate) type Uuid = [u8; 16];

/// The UUID of a valid text.
pub(crate) const fn parsed(text: &str) -> Uuid {
    let (text, mut id, mut at, mut digits) = (text.as_bytes(), [0; 16], 0, 0);
    while at < text.len() {
        let digit = match text[at] {
            b'-' => {
                at += 1;
                continue;
            }
            digit @ b'0'..=b'9' => digit - b'0',
            digit => digit - b'a' + 10,
        };
        id[digits / 2] = id[digits / 2] << 4 | digit;
        digits += 1;
        at += 1;
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_it_is_read() {
        let written = "6bd5fb6c-5bf4-e74a-8987-d93912fd9df9";
        assert_eq!(text(&parsed(written)), written);
        assert_eq!(parsed(written)[..2], [0x6b, 0xd5]);
    }
}
