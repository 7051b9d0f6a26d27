import XCTest

@testable import EdgeKitBundle

final class NumPyArrayTests: XCTestCase {
    /// A file as NumPy writes it: magic, version, length of the header, header, elements.
    private func file(_ header: String, _ elements: [UInt8]) -> Data {
        var data = Data([0x93])
        data.append(contentsOf: "NUMPY".utf8)
        data.append(contentsOf: [1, 0, UInt8(header.utf8.count), 0])
        data.append(contentsOf: header.utf8)
        data.append(contentsOf: elements)
        return data
    }

    func testReadsFloats() throws {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }\n"
        let array = try NumPyArray(file(header, [0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0]))
        XCTAssertEqual(array.shape, [1, 2])
        XCTAssertEqual(array.values, [1, -2])
    }

    func testReadsAScalar() throws {
        let array = try NumPyArray(file("{'descr': '<i8', 'fortran_order': False, 'shape': (), }\n", [7, 0, 0, 0, 0, 0, 0, 0]))
        XCTAssertEqual(array.shape, [])
        XCTAssertEqual(array.values, [7])
    }

    func testRefusesColumnOrder() {
        let header = "{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }\n"
        XCTAssertThrowsError(try NumPyArray(file(header, [0, 0, 0, 0])))
    }

    func testRefusesATruncatedFile() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n"
        XCTAssertThrowsError(try NumPyArray(file(header, [0, 0, 0, 0]))) { error in
            XCTAssertEqual(error as? NumPyArray.ReadingError, .truncated)
        }
    }
}
