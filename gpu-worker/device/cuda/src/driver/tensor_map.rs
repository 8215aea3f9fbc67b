//! Tensor maps, encoded by the driver.

use bus_schemas::{Code, Failure, TENSOR_MAP_BYTES, TensorMap, TensorPart};
use cudarc::driver::sys::{self, CUresult, CUtensorMap};

use super::check;

/// Conversions to the driver's enumerations, which name only these numbers. [`TensorMap::check`] has let them
/// pass; the driver refuses numbers that it does not know.
macro_rules! numbered {
    ($($name:ident: $kind:ident { $($variant:ident)* })*) => {$(
        fn $name(number: u8) -> Option<sys::$kind> {
            let all = [$(sys::$kind::$variant),*];
            all.get(usize::from(number)).copied()
        }
    )*};
}

numbered! {
    data_type: CUtensorMapDataType_enum {
        CU_TENSOR_MAP_DATA_TYPE_UINT8 CU_TENSOR_MAP_DATA_TYPE_UINT16 CU_TENSOR_MAP_DATA_TYPE_UINT32
        CU_TENSOR_MAP_DATA_TYPE_INT32 CU_TENSOR_MAP_DATA_TYPE_UINT64 CU_TENSOR_MAP_DATA_TYPE_INT64
        CU_TENSOR_MAP_DATA_TYPE_FLOAT16 CU_TENSOR_MAP_DATA_TYPE_FLOAT32 CU_TENSOR_MAP_DATA_TYPE_FLOAT64
        CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ
        CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ
    }
    interleave: CUtensorMapInterleave_enum {
        CU_TENSOR_MAP_INTERLEAVE_NONE CU_TENSOR_MAP_INTERLEAVE_16B CU_TENSOR_MAP_INTERLEAVE_32B
    }
    swizzle: CUtensorMapSwizzle_enum {
        CU_TENSOR_MAP_SWIZZLE_NONE CU_TENSOR_MAP_SWIZZLE_32B CU_TENSOR_MAP_SWIZZLE_64B
        CU_TENSOR_MAP_SWIZZLE_128B CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B
        CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B
    }
    promotion: CUtensorMapL2promotion_enum {
        CU_TENSOR_MAP_L2_PROMOTION_NONE CU_TENSOR_MAP_L2_PROMOTION_L2_64B
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B CU_TENSOR_MAP_L2_PROMOTION_L2_256B
    }
    fill: CUtensorMapFloatOOBfill_enum {
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
    }
}

/// A map in the driver's encoding.
#[repr(C, align(64))]
pub(crate) struct Encoded(pub(crate) [u8; TENSOR_MAP_BYTES]);

/// The driver's encoding of a recipe.
pub(crate) fn encode(map: &TensorMap) -> Result<Encoded, Failure> {
    encoded(map).unwrap_or_else(|| {
        let detail = "a tensor map with a mode that this driver does not know".to_owned();
        Err(Failure::new(Code::BadLaunch, detail))
    })
}

fn encoded(map: &TensorMap) -> Option<Result<Encoded, Failure>> {
    let (kind, interleave) = (data_type(map.data_type)?, interleave(map.interleave)?);
    let (swizzle, promotion, fill) = (
        swizzle(map.swizzle)?,
        promotion(map.l2_promotion)?,
        fill(map.fill)?,
    );
    let mut encoded = Encoded([0; TENSOR_MAP_BYTES]);
    let to: *mut CUtensorMap = (&raw mut encoded).cast();
    let rank = u32::from(map.rank);
    let address = std::ptr::without_provenance_mut(map.address as usize);
    let (dims, strides) = (map.dims.as_ptr(), map.strides.as_ptr());
    let steps = map.steps.map(u32::from);
    let result: CUresult = match map.part {
        TensorPart::Tiled(sides) => {
            let sides = sides.map(u32::from);
            // SAFETY: the lists have as many items as the maximum rank needs, 5 and for the strides 4. The
            // target is 128 bytes, aligned to 64; the address is only written into it.
            unsafe {
                sys::cuTensorMapEncodeTiled(
                    to,
                    kind,
                    rank,
                    address,
                    dims,
                    strides,
                    sides.as_ptr(),
                    steps.as_ptr(),
                    interleave,
                    swizzle,
                    promotion,
                    fill,
                )
            }
        }
        TensorPart::Im2col {
            lower,
            upper,
            channels,
            pixels,
        } => {
            let (lower, upper) = (lower.map(i32::from), upper.map(i32::from));
            // SAFETY: as above; corners have an item for each dimension except two.
            unsafe {
                sys::cuTensorMapEncodeIm2col(
                    to,
                    kind,
                    rank,
                    address,
                    dims,
                    strides,
                    lower.as_ptr(),
                    upper.as_ptr(),
                    channels.into(),
                    pixels.into(),
                    steps.as_ptr(),
                    interleave,
                    swizzle,
                    promotion,
                    fill,
                )
            }
        }
    };
    Some(check(result, "encoding a tensor map").map(|()| encoded))
}
