//! Arguments and results of functions: `.param` variables of calls, of every type.

use crate::integers::value;
use crate::vector::Test;

const TYPES: [&str; 14] = [
    "b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64",
];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for ty in TYPES {
        let bits: u32 = ty[1..].parse().expect("a width");
        let register = format!("b{}", if bits == 8 { 32 } else { bits });
        let module = format!(
            ".func (.param .{ty} out) echo(.param .{ty} in) {{ .reg .{register} %x;
             ld.param.{ty} %x, [in]; st.param.{ty} [out], %x; ret; }}\n"
        );
        let body = format!(
            ".param .{ty} to, back; st.param.{ty} [to], %a; call.uni (back), echo, (to);
             ld.param.{ty} %d, [back];"
        );
        // Types of 8 bits are returned extended to their register.
        let kind = ty.replace(['b', 'f'], "u");
        let want = move |[a, ..]: [u64; 4]| value(&kind, a) as u64;
        let test = Test::new(format!("st.param.{ty}"), &format!("{ty} = {ty}"), want);
        let test = test.body(body).module(module).lanes(256);
        tests.push(test.also([format!("ld.param.{ty}")]));
    }
    // Several at once, and a structure of bytes.
    let module = ".func (.param .align 8 .b8 out[16]) turn(.param .align 8 .b8 in[16]) {
         .reg .b64 %x, %y; ld.param.v2.b64 {%x, %y}, [in]; st.param.v2.b64 [out], {%y, %x}; ret; }\n";
    let body = ".param .align 8 .b8 to[16]; .param .align 8 .b8 back[16]; .reg .b64 %x;
         st.param.b64 [to], %a; st.param.b64 [to+8], %b; call (back), turn, (to);
         ld.param.b64 %x, [back+8]; ld.param.b64 %d, [back]; xor.b64 %d, %d, %x; add.u64 %d, %d, %x;";
    let want = |[a, b, ..]: [u64; 4]| (a ^ b).wrapping_add(a);
    let test = Test::new("st.param.v2.b64", "b64 = b64 b64", want);
    tests.push(test.body(body).module(module).also(["ld.param.v2.b64"]));
    tests
}
