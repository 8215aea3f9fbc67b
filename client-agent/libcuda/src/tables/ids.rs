//! The ids of the tables that are described.

use crate::uuid::{Uuid, parsed};

/// The id of a table.
pub(crate) type Id = Uuid;

/// The runtime's interface, hooks of tools, the thread's storage, storage of contexts, checks of a
/// context, integrity, tools of a context. Other tables are requested too, by libraries that work
/// without them: f8cff951 (the runtime from 12.9 on), da9151d3 (NVRTC, nvJitLink), 6e163fbe
/// (cuFFT).
pub(super) static IDS: [Id; 8] = [
    parsed("6bd5fb6c-5bf4-e74a-8987-d93912fd9df9"),
    parsed("a094798c-2e74-2e74-93f2-0800200c0a66"),
    parsed("42d85a81-23f6-cb47-8298-f6e78a3aecdc"),
    parsed("c693336e-1121-df11-a8c3-68f355d89593"),
    parsed("263e8860-7cd2-6143-92f6-bbd5006dfa7e"),
    parsed("d4082055-bde6-704b-8d34-ba123c66e1f2"),
    parsed("21318c60-9714-3248-8ca6-41ff7324c8f2"),
    parsed("1734dc26-800d-4745-8726-c0f1e7dd8bca"),
];
