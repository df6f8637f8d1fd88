// Queries, keys and values of two heads: three products of one value become one, whose parts are slices; the transpose behind attention
// becomes labels of the product before it.
module {
  graph.parameter @wq : tensor<8x8xf32>
  graph.parameter @wk : tensor<8x8xf32>
  graph.parameter @wv : tensor<8x8xf32>
  graph.parameter @wo : tensor<8x8xf32>
  graph.parameter @bq : tensor<8xf32>
  graph.parameter @bk : tensor<8xf32>
  graph.parameter @bv : tensor<8xf32>
  func.func @main(%x: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
    %wq = graph.get_parameter @wq : tensor<8x8xf32>
    %wk = graph.get_parameter @wk : tensor<8x8xf32>
    %wv = graph.get_parameter @wv : tensor<8x8xf32>
    %wo = graph.get_parameter @wo : tensor<8x8xf32>
    %bq = graph.get_parameter @bq : tensor<8xf32>
    %bk = graph.get_parameter @bk : tensor<8xf32>
    %bv = graph.get_parameter @bv : tensor<8xf32>
    %0 = graph.contract "bsk,kn->bsn"(%x, %wq) accumulate f32 : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32> loc("MatMulQ")
    %1 = graph.elementwise add(%0, %bq) : (tensor<1x4x8xf32>, tensor<8xf32>) -> tensor<1x4x8xf32> loc("AddQ")
    %2 = graph.contract "bsk,kn->bsn"(%x, %wk) accumulate f32 : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32> loc("MatMulK")
    %3 = graph.elementwise add(%2, %bk) : (tensor<1x4x8xf32>, tensor<8xf32>) -> tensor<1x4x8xf32> loc("AddK")
    %4 = graph.contract "bsk,kn->bsn"(%x, %wv) accumulate f32 : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32> loc("MatMulV")
    %5 = graph.elementwise add(%4, %bv) : (tensor<1x4x8xf32>, tensor<8xf32>) -> tensor<1x4x8xf32> loc("AddV")
    %6 = graph.reshape %1 {shape = [1, 4, 2, 4]} : tensor<1x4x8xf32> -> tensor<1x4x2x4xf32> loc("ReshapeQ")
    %7 = graph.transpose %6 {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x4x2x4xf32> -> tensor<1x2x4x4xf32> loc("TransposeQ")
    %8 = graph.reshape %3 {shape = [1, 4, 2, 4]} : tensor<1x4x8xf32> -> tensor<1x4x2x4xf32> loc("ReshapeK")
    %9 = graph.transpose %8 {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x4x2x4xf32> -> tensor<1x2x4x4xf32> loc("TransposeK")
    %10 = graph.reshape %5 {shape = [1, 4, 2, 4]} : tensor<1x4x8xf32> -> tensor<1x4x2x4xf32> loc("ReshapeV")
    %11 = graph.transpose %10 {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x4x2x4xf32> -> tensor<1x2x4x4xf32> loc("TransposeV")
    %12 = graph.contract "bhtd,bhds->bhts"(%7, %9) accumulate f32 : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> loc("Scores")
    %13 = graph.softmax %12 {axis = 3} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32> loc("Softmax")
    %14 = graph.contract "bhts,bhsd->bhtd"(%13, %11) accumulate f32 : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> loc("Context")
    %15 = graph.transpose %14 {permutation = array<i64: 0, 2, 1, 3>} : tensor<1x2x4x4xf32> -> tensor<1x4x2x4xf32> loc("TransposeContext")
    %16 = graph.reshape %15 {shape = [1, 4, 8]} : tensor<1x4x2x4xf32> -> tensor<1x4x8xf32> loc("ReshapeContext")
    %17 = graph.contract "bsk,kn->bsn"(%16, %wo) accumulate f32 : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32> loc("MatMulO")
    return %17 : tensor<1x4x8xf32>
  }
}
