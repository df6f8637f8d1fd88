// Products write their parts of a concatenation where they lie, also of one within another; so does a map beside a product. Maps alone are computed
// inside a concatenation's kernel, as they are where an operand is no kernel's. What is pooled is not computed at every place of a large concatenation:
// it is written in parts.
module {
  func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %image: tensor<1x8x128x128xf32>) -> (tensor<12x8xf32>, tensor<4x16xf32>, tensor<8x8xf32>, tensor<1x16x128x128xf32>) {
    %a = graph.contract "mk,kn->mn"(%x, %w) accumulate f32 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("MatMul_a")
    %b = graph.contract "mk,nk->mn"(%x, %w) accumulate f32 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("MatMul_b")
    %relu = graph.elementwise abs(%b) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("Abs_b")
    %inner = graph.concat(%a, %relu) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> loc("Concat_inner")
    %exp = graph.elementwise exp(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("Exp")
    %outer = graph.concat(%inner, %exp) {axis = 0 : i64} : (tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<12x8xf32> loc("Concat_outer")
    %sin = graph.elementwise sin(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("Sin")
    %cos = graph.elementwise cos(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("Cos")
    %maps = graph.concat(%sin, %cos) {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32> loc("Concat_maps")
    %log = graph.elementwise log(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("Log")
    %input = graph.concat(%log, %x) {axis = 0 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> loc("Concat_input")
    %m = graph.window max(%image) {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pad_begin = array<i64: 1, 1>, pad_end = array<i64: 1, 1>} : (tensor<1x8x128x128xf32>) -> tensor<1x8x128x128xf32> loc("MaxPool")
    %n = graph.window sum(%image) {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pad_begin = array<i64: 1, 1>, pad_end = array<i64: 1, 1>} : (tensor<1x8x128x128xf32>) -> tensor<1x8x128x128xf32> loc("SumPool")
    %pools = graph.concat(%m, %n) {axis = 1 : i64} : (tensor<1x8x128x128xf32>, tensor<1x8x128x128xf32>) -> tensor<1x16x128x128xf32> loc("Concat_pools")
    return %outer, %maps, %input, %pools : tensor<12x8xf32>, tensor<4x16xf32>, tensor<8x8xf32>, tensor<1x16x128x128xf32>
  }
}
