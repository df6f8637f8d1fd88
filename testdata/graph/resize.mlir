// Interpolation.
module {
  func.func @main(%arg0: tensor<1x3x8x8xf32>) -> (tensor<1x3x16x16xf32>, tensor<1x3x16x16xf32>, tensor<1x3x5x5xf32>) {
    %0 = graph.resize %arg0 {coordinates = "asymmetric", cubic_coefficient = -7.500000e-01 : f64, extrapolation_value = 0.000000e+00 : f64, mode = "nearest", rounding = "floor", scales = array<f64: 1.000000e+00, 1.000000e+00, 2.000000e+00, 2.000000e+00>, sizes = [1, 3, 16, 16]} : tensor<1x3x8x8xf32> -> tensor<1x3x16x16xf32>
    %1 = graph.resize %arg0 {coordinates = "half_pixel", cubic_coefficient = -5.000000e-01 : f64, exclude_outside, extrapolation_value = 0.000000e+00 : f64, mode = "cubic", rounding = "round_prefer_floor", sizes = [1, 3, 16, 16]} : tensor<1x3x8x8xf32> -> tensor<1x3x16x16xf32>
    %2 = graph.resize %arg0 {coordinates = "tf_crop_and_resize", cubic_coefficient = -7.500000e-01 : f64, extrapolation_value = 1.000000e+00 : f64, mode = "linear", region = array<f64: 0.000000e+00, 0.000000e+00, 2.500000e-01, 2.500000e-01, 1.000000e+00, 1.000000e+00, 7.500000e-01, 7.500000e-01>, rounding = "round_prefer_floor", sizes = [1, 3, 5, 5]} : tensor<1x3x8x8xf32> -> tensor<1x3x5x5xf32>
    return %0, %1, %2 : tensor<1x3x16x16xf32>, tensor<1x3x16x16xf32>, tensor<1x3x5x5xf32>
  }
}
