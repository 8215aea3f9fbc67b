//! The names of the tables that somebody has described.

/// The name of a table: a UUID, its bytes in the order of its text.
pub(crate) type Id = [u8; 16];

const fn id(text: &str) -> Id {
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

/// The runtime's interface, hooks of tools, the thread's storage, storage of contexts, checks of a
/// context, integrity, tools of a context. Others are asked for, and those who ask do without:
/// f8cff951 (the runtime from 12.9 on), da9151d3 (NVRTC, nvJitLink), 6e163fbe (cuFFT).
pub(super) static IDS: [Id; 7] = [
    id("6bd5fb6c-5bf4-e74a-8987-d93912fd9df9"),
    id("a094798c-2e74-2e74-93f2-0800200c0a66"),
    id("42d85a81-23f6-cb47-8298-f6e78a3aecdc"),
    id("c693336e-1121-df11-a8c3-68f355d89593"),
    id("263e8860-7cd2-6143-92f6-bbd5006dfa7e"),
    id("d4082055-bde6-704b-8d34-ba123c66e1f2"),
    id("21318c60-9714-3248-8ca6-41ff7324c8f2"),
];

/// An id as it is written.
pub(super) fn name(id: &Id) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_as_they_are_written() {
        assert_eq!(name(&IDS[0]), "6bd5fb6c-5bf4-e74a-8987-d93912fd9df9");
    }
}
