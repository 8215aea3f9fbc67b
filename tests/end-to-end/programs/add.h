/* The kernel of several programs. */
/* Adds `by` to each of `count` words; beside it a variable. */
static const char *ADD = ".version 7.0\n.target sm_70\n.address_size 64\n"
                         ".visible .global .u32 more[2] = {5, 6};\n"
                         ".visible .entry add(.param .u64 words, .param .u32 by,"
                         " .param .u32 count) {\n"
                         "  .reg .pred %p;\n  .reg .b32 %r<7>;\n  .reg .b64 %a<4>;\n"
                         "  ld.param.u64 %a1, [words];\n  cvta.to.global.u64 %a1, %a1;\n"
                         "  ld.param.u32 %r1, [by];\n  ld.param.u32 %r2, [count];\n"
                         "  mov.u32 %r3, %tid.x;\n  mov.u32 %r4, %ntid.x;\n"
                         "  mov.u32 %r5, %ctaid.x;\n  mad.lo.u32 %r3, %r4, %r5, %r3;\n"
                         "  setp.ge.u32 %p, %r3, %r2;\n  @%p ret;\n"
                         "  mul.wide.u32 %a2, %r3, 4;\n  add.u64 %a1, %a1, %a2;\n"
                         "  ld.global.u32 %r6, [%a1];\n  add.u32 %r6, %r6, %r1;\n"
                         "  st.global.u32 [%a1], %r6;\n  ret;\n}\n";
