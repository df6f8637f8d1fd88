// Attention as exporters spell it. Positions before heads, a scale by division, a mask of numbers, the result back in the first order.
func.func @encoder(%q: tensor<2x5x4x8xf32>, %k: tensor<2x7x4x8xf32>, %v: tensor<2x7x4x8xf32>, %mask: tensor<2x1x1x7xf32>) -> tensor<2x5x32xf32> {
  %root = graph.constant dense<2.828427> : tensor<f32> -> tensor<f32>
  %0 = graph.transpose %q {permutation = array<i64: 0, 2, 1, 3>} : tensor<2x5x4x8xf32> -> tensor<2x4x5x8xf32> loc("TransposeQ")
  %1 = graph.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : tensor<2x7x4x8xf32> -> tensor<2x4x8x7xf32> loc("TransposeK")
  %2 = graph.transpose %v {permutation = array<i64: 0, 2, 1, 3>} : tensor<2x7x4x8xf32> -> tensor<2x4x7x8xf32> loc("TransposeV")
  %3 = graph.contract "abmk,abkn->abmn"(%0, %1) accumulate f32 : (tensor<2x4x5x8xf32>, tensor<2x4x8x7xf32>) -> tensor<2x4x5x7xf32> loc("Scores")
  %4 = graph.elementwise divide(%3, %root) : (tensor<2x4x5x7xf32>, tensor<f32>) -> tensor<2x4x5x7xf32> loc("Scale")
  %5 = graph.elementwise add(%4, %mask) : (tensor<2x4x5x7xf32>, tensor<2x1x1x7xf32>) -> tensor<2x4x5x7xf32> loc("Mask")
  %6 = graph.softmax %5 {axis = 3} : tensor<2x4x5x7xf32> -> tensor<2x4x5x7xf32> loc("Softmax")
  %7 = graph.contract "abmk,abkn->abmn"(%6, %2) accumulate f32 : (tensor<2x4x5x7xf32>, tensor<2x4x7x8xf32>) -> tensor<2x4x5x8xf32> loc("Sum")
  %8 = graph.transpose %7 {permutation = array<i64: 0, 2, 1, 3>} : tensor<2x4x5x8xf32> -> tensor<2x5x4x8xf32> loc("TransposeBack")
  %9 = graph.reshape %8 {shape = [2, 5, 32]} : tensor<2x5x4x8xf32> -> tensor<2x5x32xf32> loc("Join")
  return %9 : tensor<2x5x32xf32>
}
// Both operands scaled before the product; places of times to come by a choice; softmax in f32 between conversions.
func.func @decoder(%q: tensor<1x2x6x8xf16>, %k: tensor<1x2x6x8xf16>, %v: tensor<1x2x6x8xf16>, %seen: tensor<6x6xi1>) -> tensor<1x2x6x8xf16> {
  %root = graph.constant dense<5.946040e-01> : tensor<f16> -> tensor<f16>
  %never = graph.constant dense<0xFF800000> : tensor<f32> -> tensor<f32>
  %0 = graph.elementwise multiply(%q, %root) : (tensor<1x2x6x8xf16>, tensor<f16>) -> tensor<1x2x6x8xf16> loc("ScaleQ")
  %1 = graph.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : tensor<1x2x6x8xf16> -> tensor<1x2x8x6xf16> loc("TransposeK")
  %2 = graph.elementwise multiply(%root, %1) : (tensor<f16>, tensor<1x2x8x6xf16>) -> tensor<1x2x8x6xf16> loc("ScaleK")
  %3 = graph.contract "abmk,abkn->abmn"(%0, %2) accumulate f32 : (tensor<1x2x6x8xf16>, tensor<1x2x8x6xf16>) -> tensor<1x2x6x6xf16> loc("Scores")
  %4 = graph.cast %3 : tensor<1x2x6x6xf16> -> tensor<1x2x6x6xf32> loc("ToF32")
  %5 = graph.elementwise select(%seen, %4, %never) : (tensor<6x6xi1>, tensor<1x2x6x6xf32>, tensor<f32>) -> tensor<1x2x6x6xf32> loc("Causal")
  %6 = graph.softmax %5 {axis = -1} : tensor<1x2x6x6xf32> -> tensor<1x2x6x6xf32> loc("Softmax")
  %7 = graph.cast %6 : tensor<1x2x6x6xf32> -> tensor<1x2x6x6xf16> loc("ToF16")
  %8 = graph.contract "abmk,abkn->abmn"(%7, %v) accumulate f32 : (tensor<1x2x6x6xf16>, tensor<1x2x6x8xf16>) -> tensor<1x2x6x8xf16> loc("Sum")
  return %8 : tensor<1x2x6x8xf16>
}
// One batch dimension, weights as the right operand, two masks of which one is hidden by a choice of the least number.
func.func @joined(%q: tensor<6x5x8xf32>, %k: tensor<6x8x7xf32>, %v: tensor<6x7x3xf32>, %hidden: tensor<5x7xi1>, %bias: tensor<6x5x7xf32>) -> tensor<3x5x6xf32> {
  %least = graph.constant dense<-3.40282347E+38> : tensor<f32> -> tensor<f32>
  %0 = graph.contract "bmk,bkn->bmn"(%q, %k) accumulate f32 : (tensor<6x5x8xf32>, tensor<6x8x7xf32>) -> tensor<6x5x7xf32> loc("Scores")
  %1 = graph.elementwise add(%bias, %0) : (tensor<6x5x7xf32>, tensor<6x5x7xf32>) -> tensor<6x5x7xf32> loc("Bias")
  %2 = graph.elementwise select(%hidden, %least, %1) : (tensor<5x7xi1>, tensor<f32>, tensor<6x5x7xf32>) -> tensor<6x5x7xf32> loc("Hide")
  %3 = graph.softmax %2 {axis = 2} : tensor<6x5x7xf32> -> tensor<6x5x7xf32> loc("Softmax")
  %4 = graph.contract "bse,bts->etb"(%v, %3) accumulate f32 : (tensor<6x7x3xf32>, tensor<6x5x7xf32>) -> tensor<3x5x6xf32> loc("Sum")
  return %4 : tensor<3x5x6xf32>
}
// An attention of its own, of grouped heads.
func.func @operator(%q: tensor<1x4x8x16xf32>, %k: tensor<1x2x9x16xf32>, %v: tensor<1x2x9x16xf32>) -> tensor<1x4x8x16xf32> {
  %0 = graph.attention(%q, %k, %v) {scale = 2.500000e-01 : f64, causal = "end"} : (tensor<1x4x8x16xf32>, tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>) -> tensor<1x4x8x16xf32> loc("Attention")
  return %0 : tensor<1x4x8x16xf32>
}
// A bias of each head and a mask of each batch, of which neither is as large as their sum, and a scale behind them.
func.func @two_terms(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x8x4xf32>, %v: tensor<2x2x4x8xf32>, %bias: tensor<1x2x4x4xf32>, %mask: tensor<2x1x1x4xf32>) -> tensor<2x2x4x8xf32> {
  %half = graph.constant dense<0.5> : tensor<f32> -> tensor<f32>
  %0 = graph.contract "abmk,abkn->abmn"(%q, %k) accumulate f32 : (tensor<2x2x4x8xf32>, tensor<2x2x8x4xf32>) -> tensor<2x2x4x4xf32> loc("Scores")
  %1 = graph.elementwise add(%0, %bias) : (tensor<2x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<2x2x4x4xf32> loc("Bias")
  %2 = graph.elementwise add(%1, %mask) : (tensor<2x2x4x4xf32>, tensor<2x1x1x4xf32>) -> tensor<2x2x4x4xf32> loc("Mask")
  %3 = graph.elementwise multiply(%2, %half) : (tensor<2x2x4x4xf32>, tensor<f32>) -> tensor<2x2x4x4xf32> loc("Scale")
  %4 = graph.softmax %3 {axis = 3} : tensor<2x2x4x4xf32> -> tensor<2x2x4x4xf32> loc("Softmax")
  %5 = graph.contract "abmk,abkn->abmn"(%4, %v) accumulate f32 : (tensor<2x2x4x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32> loc("Sum")
  return %5 : tensor<2x2x4x8xf32>
}
// Two choices of the least number: a query that sees no key weighs all alike.
func.func @two_choices(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x4x8xf32>, %one: tensor<4x4xi1>, %other: tensor<4x1xi1>) -> tensor<1x2x4x8xf32> {
  %least = graph.constant dense<-3.40282347E+38> : tensor<f32> -> tensor<f32>
  %0 = graph.contract "abmk,abkn->abmn"(%q, %k) accumulate f32 : (tensor<1x2x4x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x4x4xf32> loc("Scores")
  %1 = graph.elementwise select(%one, %0, %least) : (tensor<4x4xi1>, tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32> loc("One")
  %2 = graph.elementwise select(%other, %1, %least) : (tensor<4x1xi1>, tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32> loc("Other")
  %3 = graph.softmax %2 {axis = 3} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32> loc("Softmax")
  %4 = graph.contract "abmk,abkn->abmn"(%3, %v) accumulate f32 : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> loc("Sum")
  return %4 : tensor<1x2x4x8xf32>
}
// None: weights that are a result too; a choice of a number that scores may reach; softmax over the queries; f64; heads of 512, also written out; a product of weights and a mask.
func.func @weights_are_read(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x4x8xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4x4xf32>) {
  %0 = graph.contract "abmk,abkn->abmn"(%q, %k) accumulate f32 : (tensor<1x2x4x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x4x4xf32> loc("Scores")
  %1 = graph.softmax %0 {axis = 3} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32> loc("Softmax")
  %2 = graph.contract "abmk,abkn->abmn"(%1, %v) accumulate f32 : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> loc("Sum")
  return %2, %1 : tensor<1x2x4x8xf32>, tensor<1x2x4x4xf32>
}
func.func @hides_little(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x4x8xf32>, %seen: tensor<4x4xi1>) -> tensor<1x2x4x8xf32> {
  %low = graph.constant dense<-10000.0> : tensor<f32> -> tensor<f32>
  %0 = graph.contract "abmk,abkn->abmn"(%q, %k) accumulate f32 : (tensor<1x2x4x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x4x4xf32> loc("Scores")
  %1 = graph.elementwise select(%seen, %0, %low) : (tensor<4x4xi1>, tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32> loc("Where")
  %2 = graph.softmax %1 {axis = 3} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32> loc("Softmax")
  %3 = graph.contract "abmk,abkn->abmn"(%2, %v) accumulate f32 : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> loc("Sum")
  return %3 : tensor<1x2x4x8xf32>
}
func.func @over_queries(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %0 = graph.contract "abmk,abkn->abmn"(%q, %k) accumulate f32 : (tensor<1x2x4x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x4x4xf32> loc("Scores")
  %1 = graph.softmax %0 {axis = 2} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32> loc("Softmax")
  %2 = graph.contract "abmk,abkn->abmn"(%1, %v) accumulate f32 : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> loc("Sum")
  return %2 : tensor<1x2x4x8xf32>
}
func.func @double(%q: tensor<1x2x4x8xf64>, %k: tensor<1x2x4x8xf64>, %v: tensor<1x2x4x8xf64>) -> tensor<1x2x4x8xf64> {
  %0 = graph.attention(%q, %k, %v) {scale = 1.0 : f64} : (tensor<1x2x4x8xf64>, tensor<1x2x4x8xf64>, tensor<1x2x4x8xf64>) -> tensor<1x2x4x8xf64> loc("Attention")
  return %0 : tensor<1x2x4x8xf64>
}
func.func @deep(%q: tensor<1x1x2x512xf32>, %k: tensor<1x1x2x512xf32>, %v: tensor<1x1x2x512xf32>) -> tensor<1x1x2x512xf32> {
  %0 = graph.attention(%q, %k, %v) {scale = 1.0 : f64} : (tensor<1x1x2x512xf32>, tensor<1x1x2x512xf32>, tensor<1x1x2x512xf32>) -> tensor<1x1x2x512xf32> loc("Attention")
  return %0 : tensor<1x1x2x512xf32>
}
func.func @deep_products(%q: tensor<1x1x2x80xf32>, %k: tensor<1x1x80x2xf32>, %v: tensor<1x1x2x80xf32>) -> tensor<1x1x2x80xf32> {
  %0 = graph.contract "abmk,abkn->abmn"(%q, %k) accumulate f32 : (tensor<1x1x2x80xf32>, tensor<1x1x80x2xf32>) -> tensor<1x1x2x2xf32> loc("Scores")
  %1 = graph.softmax %0 {axis = 3} : tensor<1x1x2x2xf32> -> tensor<1x1x2x2xf32> loc("Softmax")
  %2 = graph.contract "abmk,abkn->abmn"(%1, %v) accumulate f32 : (tensor<1x1x2x2xf32>, tensor<1x1x2x80xf32>) -> tensor<1x1x2x80xf32> loc("Sum")
  return %2 : tensor<1x1x2x80xf32>
}
func.func @masked_weights(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x4x8xf32>, %keep: tensor<4x4xf32>) -> tensor<1x2x4x8xf32> {
  %0 = graph.contract "abmk,abkn->abmn"(%q, %k) accumulate f32 : (tensor<1x2x4x8xf32>, tensor<1x2x8x4xf32>) -> tensor<1x2x4x4xf32> loc("Scores")
  %1 = graph.softmax %0 {axis = 3} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32> loc("Softmax")
  %2 = graph.elementwise multiply(%1, %keep) : (tensor<1x2x4x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4x4xf32> loc("Keep")
  %3 = graph.contract "abmk,abkn->abmn"(%2, %v) accumulate f32 : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> loc("Sum")
  return %3 : tensor<1x2x4x8xf32>
}
// A softmax that no product reads is a softmax.
func.func @classes(%x: tensor<4x8xf32>, %w: tensor<8x3xf32>) -> tensor<4x3xf32> {
  %0 = graph.contract "mk,kn->mn"(%x, %w) accumulate f32 : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32> loc("Product")
  %1 = graph.softmax %0 {axis = 1} : tensor<4x3xf32> -> tensor<4x3xf32> loc("Softmax")
  return %1 : tensor<4x3xf32>
}
