// A recurrent layer whose rows have lengths of their own, in one direction.
module {
  func.func @main(%arg0: tensor<3x2x12xf32>, %arg1: tensor<4x12xf32>, %arg2: tensor<2x4xf32>, %arg3: tensor<2xi32>) -> (tensor<3x2x4xf32>, tensor<2x4xf32>) {
    %0:2 = graph.recurrence gru(%arg0, %arg1, %arg2, %arg3) {activations = ["hard_sigmoid", "tanh"], clip = 2.000000e+00 : f64, linear_before_reset, optional = ["hidden", "lengths"], parameters = array<f64: 2.000000e-01, 5.000000e-01, 0.000000e+00, 0.000000e+00>, reverse} : (tensor<3x2x12xf32>, tensor<4x12xf32>, tensor<2x4xf32>, tensor<2xi32>) -> (tensor<3x2x4xf32>, tensor<2x4xf32>)
    return %0#0, %0#1 : tensor<3x2x4xf32>, tensor<2x4xf32>
  }
}
