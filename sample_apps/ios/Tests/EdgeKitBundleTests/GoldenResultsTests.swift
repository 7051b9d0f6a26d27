import XCTest

@testable import EdgeKitBundle

final class GoldenResultsTests: XCTestCase {
    func testElementsAreLittleEndianDoubles() {
        let output = GoldenResults.Output(name: "y", elements: [1, -2.5, .infinity])
        XCTAssertEqual(output.values, "AAAAAAAA8D8AAAAAAAAEwAAAAAAAAPB/")
        XCTAssertEqual(output.elements, [1, -2.5, .infinity])
    }

    func testAFileHasTheNamesThatEdgeKitReads() throws {
        let sample = GoldenResults.Sample(milliseconds: 2, outputs: [])
        let results = GoldenResults(format: 1, manifest: "{}", profile: "ios18", executedBy: "me", loadMs: 3, samples: [sample])
        let read = try XCTUnwrap(JSONSerialization.jsonObject(with: results.json()) as? [String: Any])
        XCTAssertEqual(Set(read.keys), ["format", "manifest", "profile", "executed_by", "load_ms", "samples"])
    }
}
