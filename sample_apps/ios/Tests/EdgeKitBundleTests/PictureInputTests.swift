import CoreML
import CoreVideo
import XCTest

@testable import EdgeKitBundle

final class PictureInputTests: XCTestCase {
    private func preprocessing(color: String, layout: String) throws -> ImagePreprocessing {
        let declared = """
            {"scale": 0.5, "mean": [1, 2, 3], "std": [2, 4, 8], "color": "\(color)", "size": [1, 2], "resize": "none",
            "cropFraction": 1, "padValue": 0, "padAlign": "center", "layout": "\(layout)"}
            """
        return try JSONDecoder().decode(ImagePreprocessing.self, from: Data(declared.utf8))
    }

    private func pixels(of value: MLFeatureValue, width: Int) throws -> [UInt8] {
        let buffer = try XCTUnwrap(value.imageBufferValue)
        CVPixelBufferLockBaseAddress(buffer, .readOnly)
        defer { CVPixelBufferUnlockBaseAddress(buffer, .readOnly) }
        let base = try XCTUnwrap(CVPixelBufferGetBaseAddress(buffer))
        return (0..<width).map { base.load(fromByteOffset: $0, as: UInt8.self) }
    }

    /// Two pixels, red 10 and 20, green 30 and 40, blue 50 and 60: (pixel * 0.5 - mean) / std of each channel.
    private let red = [2, 4.5], green = [3.25, 4.5], blue = [2.75, 3.375]

    func testPlanesBecomeBlueGreenRedAlpha() throws {
        let value = try preprocessing(color: "RGB", layout: "NCHW").picture(of: red + green + blue, named: "x")
        XCTAssertEqual(try pixels(of: value, width: 8), [50, 30, 10, 255, 60, 40, 20, 255])
    }

    func testPixelsInTheModelsOtherOrderDoToo() throws {
        let bgr = try preprocessing(color: "BGR", layout: "NHWC")
        // The channels' means and deviations are in the model's order: blue has mean 1 and deviation 2.
        let values = [(50 * 0.5 - 1) / 2, (30 * 0.5 - 2) / 4, (10 * 0.5 - 3) / 8, (60 * 0.5 - 1) / 2, (40 * 0.5 - 2) / 4, (20 * 0.5 - 3) / 8]
        XCTAssertEqual(try pixels(of: bgr.picture(of: values, named: "x"), width: 8), [50, 30, 10, 255, 60, 40, 20, 255])
    }

    func testGrayIsOneByteAPixel() throws {
        let value = try preprocessing(color: "GRAY", layout: "HW").picture(of: red, named: "x")
        XCTAssertEqual(try pixels(of: value, width: 2), [10, 20])
    }

    func testAnotherNumberOfValuesIsRefused() throws {
        XCTAssertThrowsError(try preprocessing(color: "RGB", layout: "NCHW").picture(of: red, named: "x"))
    }
}
