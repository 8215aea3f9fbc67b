//! The exported functions. Their names and arguments are those of the driver API.

#![expect(unsafe_code, reason = "functions of the C interface")]

mod abi;
mod context;
mod copies;
mod events;
mod launches;
mod memory;
mod modules;
mod tensor_maps;
mod testing;
