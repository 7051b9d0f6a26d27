import CoreGraphics
import XCTest
import EdgeKitBundle

final class DetectorTests: XCTestCase {
    func testWritesTheBoxesOfEachBundle() async throws {
        let folder = URL(fileURLWithPath: try XCTUnwrap(ProcessInfo.processInfo.environment["DETECTORS"]))
        for bundle in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
            let detector = try await ModelBundle(folder: bundle).detector()
            let found = try await detector.predict(CGImage(width: 128, height: 128), confidence: 0.5, overlap: 0.4)
            let rows = found.map { one -> [String: Any] in
                let box = [one.box.minX, one.box.minY, one.box.maxX, one.box.maxY].map { Double($0) }
                return ["label": one.label ?? "", "index": one.index, "confidence": one.confidence, "box": box]
            }
            try JSONSerialization.data(withJSONObject: rows).write(to: bundle.appendingPathComponent("found.json"))
        }
    }

    func testABundleOfAnotherKindSaysSo() async throws {
        do {
            _ = try await ModelBundle().detector()
            XCTFail("is no detector")
        } catch {
            XCTAssertEqual(error as? DetectorError, .takesNoPicture)
        }
    }
}
