//! Links, modules and their functions.

use super::abi::{In, Out, Text};
use crate::codes::{INVALID_IMAGE, INVALID_PTX, INVALID_VALUE, NOT_FOUND};
use crate::driver::{CallKind, call};
use crate::modules::{LoadedFunction, is_linked, is_machine_code, link, load};

/// First bytes of machine code, by which its length is asked for.
const HEADER: usize = 4;
const LOG: u32 = 5;
const LOG_BYTES: u32 = 6;
/// Shared memory that every block may have.
const SHARED: u64 = 48 << 10;
/// Attributes of functions, and of devices.
const DYNAMIC: u32 = 8;
const LARGE_CLUSTERS: u32 = 14;
const MOST_SHARED: u32 = 97;

/// Begins a link. The log that its options name is written if the link fails.
#[unsafe(no_mangle)]
extern "C" fn cuLinkCreate_v2(
    count: u32,
    options: In<u32>,
    values: In<u64>,
    state: Out<u64>,
) -> u32 {
    call(CallKind::new("cuLinkCreate_v2"), |driver, _| {
        let options = options.all(count as usize)?;
        let values = values.all(count as usize)?;
        let value = |which| {
            let at = options.iter().position(|option| *option == which);
            at.and_then(|at| values.get(at)).copied().unwrap_or(0)
        };
        let log = (value(LOG), value(LOG_BYTES));
        let link = crate::modules::Link {
            log,
            ..Default::default()
        };
        state.put(driver.links.add(&mut driver.handles, link))
    })
}

/// Compiles a text, as far as this driver does.
#[unsafe(no_mangle)]
extern "C" fn cuLinkAddData_v2(
    state: u64,
    _kind: u32,
    data: In<u8>,
    bytes: u64,
    _name: u64,
    _count: u32,
    _options: u64,
    _values: u64,
) -> u32 {
    call(CallKind::new("cuLinkAddData_v2"), |driver, _| {
        let mut text = data.all(bytes as usize)?;
        if text.last() == Some(&0) {
            text.pop();
        }
        let it = driver.links.get_mut(state)?;
        if let Err(error) = link(std::slice::from_ref(&text)) {
            let (log, room) = it.log;
            let mut error = error.into_bytes();
            error.truncate((room as usize).saturating_sub(1));
            error.push(0);
            if room > 0 {
                Out::at(log).put_all(&error)?;
            }
            return Err(INVALID_PTX);
        }
        it.texts.push(text);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuLinkComplete(state: u64, image: Out<u64>, bytes: Out<u64>) -> u32 {
    call(CallKind::new("cuLinkComplete"), |driver, _| {
        let it = driver.links.get_mut(state)?;
        it.linked = link(&it.texts).map_err(|_| INVALID_PTX)?;
        image.put(it.linked.as_ptr().expose_provenance() as u64)?;
        bytes.put(it.linked.len() as u64)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuLinkDestroy(state: u64) -> u32 {
    call(CallKind::new("cuLinkDestroy"), |driver, _| {
        driver.links.remove(state).map(drop)
    })
}

/// Reads an image of unknown length: a text ends in a zero byte, machine code says how long it is.
fn image(from: In<u8>) -> Result<Vec<u8>, u32> {
    from.get()?;
    let text = Text::at(from.address()).bytes()?;
    if !is_machine_code(&text) {
        return Ok(text);
    }
    let mut have = HEADER;
    loop {
        let first = from.all(have)?;
        let length = ptx::cubin_extent(&first).ok_or(INVALID_IMAGE)? as usize;
        if length <= have {
            return Ok(first);
        }
        have = length;
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadData(module: Out<u64>, from: In<u8>) -> u32 {
    let image = image(from);
    let compiled = image
        .as_ref()
        .is_ok_and(|it| is_linked(it) || is_machine_code(it));
    let label = if compiled {
        "linked"
    } else {
        "PTX, 1 function"
    };
    call(
        CallKind::new("cuModuleLoadData").label(label),
        |driver, _| {
            let loaded = load(&image?, &mut driver.memory)?;
            module.put(driver.modules.add(&mut driver.handles, loaded))
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: u64) -> u32 {
    call(CallKind::new("cuModuleUnload"), |driver, _| {
        let it = driver.modules.remove(module)?;
        driver
            .functions
            .retain(|function| function.module != module);
        it.unload(&mut driver.memory);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(to: Out<u64>, module: u64, name: Text) -> u32 {
    call(CallKind::new("cuModuleGetFunction"), |driver, _| {
        let name = name.get()?;
        let entries = &driver.modules.get(module)?.entries;
        let entry = entries
            .iter()
            .find(|entry| entry.name == name)
            .ok_or(NOT_FOUND)?;
        let function = LoadedFunction {
            module,
            dynamic: SHARED.saturating_sub(u64::from(entry.static_shared)),
            entry: entry.clone(),
            large_clusters: false,
        };
        to.put(driver.functions.add(&mut driver.handles, function))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuModuleGetGlobal_v2(to: Out<u64>, bytes: Out<u64>, module: u64, name: Text) -> u32 {
    call(CallKind::new("cuModuleGetGlobal_v2"), |driver, _| {
        let name = name.get()?;
        let variables = &driver.modules.get(module)?.variables;
        let (address, size) = *variables.get(&name).ok_or(NOT_FOUND)?;
        to.put(address)?;
        bytes.put(size)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetParamInfo(
    function: u64,
    index: u64,
    offset: Out<u64>,
    bytes: Out<u64>,
) -> u32 {
    call(CallKind::new("cuFuncGetParamInfo"), |driver, _| {
        let params = &driver.functions.get(function)?.entry.params;
        let param = params.get(index as usize).ok_or(INVALID_VALUE)?;
        offset.put(u64::from(param.offset))?;
        bytes.put(u64::from(param.size))
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncGetAttribute(to: Out<i32>, which: u32, function: u64) -> u32 {
    call(CallKind::new("cuFuncGetAttribute"), |driver, _| {
        let it = driver.functions.get(function)?;
        let number = |value: u64| i32::try_from(value).unwrap_or(i32::MAX);
        to.put(match which {
            0 => number(driver.gpu.block_threads()),
            1 => number(u64::from(it.entry.static_shared)),
            3 => number(it.entry.local_bytes),
            4 => number(u64::from(it.entry.registers)),
            5 => 80,
            6 => 90,
            DYNAMIC => number(it.dynamic),
            9 => -1,
            LARGE_CLUSTERS => i32::from(it.large_clusters),
            2 | 7 | 10..=13 | 15 => 0,
            _ => return Err(INVALID_VALUE),
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(function: u64, which: u32, value: i32) -> u32 {
    call(CallKind::new("cuFuncSetAttribute"), |driver, _| {
        let most = driver.gpu.attribute(MOST_SHARED).unwrap_or(0);
        let it = driver.functions.get_mut(function)?;
        let value = u64::try_from(value).map_err(|_| INVALID_VALUE)?;
        match which {
            DYNAMIC if value + u64::from(it.entry.static_shared) <= most.unsigned_abs().into() => {
                it.dynamic = value;
                Ok(())
            }
            LARGE_CLUSTERS => {
                it.large_clusters = value != 0;
                Ok(())
            }
            _ => Err(INVALID_VALUE),
        }
    })
}
