import CoreGraphics
import XCTest

@testable import EdgeKitBundle

/// Boxes computed by hand, on an input 100 pixels wide and 50 high.
final class BoxReadingTests: XCTestCase {
    private func boxes(
        _ declared: String, _ outputs: [String: [Double]], confidence: Double = 0.25
    ) throws -> [ScoredBox] {
        let reading = try reading(declared)
        return try reading.boxes(in: outputs, width: 100, height: 50, confidence: confidence)
    }

    private func reading(_ declared: String) throws -> any BoxReading {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(DeclaredBoxes.self, from: Data(declared.utf8)).reading()
    }

    private func columns(
        _ output: String, width: Int, first: Int = 0, count: Int = 1, turned: Bool = false
    ) -> String {
        """
        {"output": "\(output)", "width": \(width), "first": \(first), "count": \(count), "turned": \(turned)}
        """
    }

    private func rows(
        coordinates: String, are: String = "corners", unit: String = "pixel", order: String = "\"xy\"",
        scores: String, activation: String = "none", background: String = "null", objectness: String = "null",
        classes: String = "null"
    ) -> String {
        """
        {"form": "rows", "suppressed": \(classes != "null"), "coordinates": \(coordinates),
        "coordinates_are": "\(are)", "unit": "\(unit)", "order": \(order), "scores": \(scores),
        "activation": "\(activation)",
        "background": \(background), "objectness": \(objectness), "classes": \(classes)}
        """
    }

    func testColumnsOfCentreAndSize() throws {
        let declared = rows(
            coordinates: columns("y", width: 6, count: 4, turned: true), are: "centre_and_size",
            scores: columns("y", width: 6, first: 4, count: 2, turned: true))
        // Three boxes: center x, center y, widths, heights, scores of the first class, scores of the second class.
        let outputs = ["y": [10, 30, 50, 20, 20, 20, 8, 10, 12, 4, 6, 8, 0.1, 0.3, 0.2, 0.9, 0.2, 0.2]]
        XCTAssertEqual(
            try boxes(declared, outputs),
            [
                ScoredBox(corners: Corners(left: 6, top: 18, right: 14, bottom: 22), score: 0.9, index: 1),
                ScoredBox(corners: Corners(left: 25, top: 17, right: 35, bottom: 23), score: 0.3, index: 0),
            ])
        XCTAssertEqual(try boxes(declared, outputs, confidence: 0.2).count, 3)
    }

    func testAFactorOfAllScores() throws {
        let declared = rows(
            coordinates: columns("y", width: 7, count: 4), scores: columns("y", width: 7, first: 5, count: 2),
            objectness: columns("y", width: 7, first: 4))
        let outputs = ["y": [1, 2, 3, 4, 0.5, 0.25, 1, 1, 2, 3, 4, 0.2, 1, 1]]
        XCTAssertEqual(
            try boxes(declared, outputs),
            [ScoredBox(corners: Corners(left: 1, top: 2, right: 3, bottom: 4), score: 0.5, index: 1)])
    }

    func testRowsAfterSuppressionInSharesWithTheImageFirst() throws {
        let declared = rows(
            coordinates: columns("y", width: 7, first: 3, count: 4), unit: "share",
            scores: columns("y", width: 7, first: 2), classes: columns("y", width: 7, first: 1))
        let outputs = ["y": [0, 7, 0.8, 0.1, 0.2, 0.5, 0.6, 0, -1, 0.9, 0, 0, 1, 1, 0, 3, 0, 0, 0, 1, 1]]
        XCTAssertEqual(
            try boxes(declared, outputs),
            [ScoredBox(corners: Corners(left: 10, top: 10, right: 50, bottom: 30), score: 0.8, index: 7)])
        XCTAssertEqual(try reading(declared).names(of: ["a"]), ["a"])
    }

    func testLogitsBesideBoxes() throws {
        let declared = rows(
            coordinates: columns("b", width: 4, count: 4),
            scores: columns("s", width: 2, count: 2, turned: true), activation: "logistic")
        // The logistic function is 0.75 at the logarithm of 3.
        let outputs: [String: [Double]] = ["b": [1, 2, 3, 4, 5, 6, 7, 8], "s": [0, -9, log(3), -2]]
        let found = try boxes(declared, outputs)
        XCTAssertEqual(found.map(\.corners), [Corners(left: 1, top: 2, right: 3, bottom: 4)])
        XCTAssertEqual(found.map(\.index), [1])
        XCTAssertEqual(found[0].score, 0.75, accuracy: 1e-12)
    }

    func testExclusiveClassesBesideBoxesWithYFirst() throws {
        let declared = rows(
            coordinates: columns("b", width: 4, count: 4), unit: "share", order: "\"yx\"",
            scores: columns("s", width: 3, count: 3), activation: "softmax", background: "1")
        // The first box has the probabilities 1/8, 2/8 and 5/8; the second one nearly 1 for the background.
        let outputs: [String: [Double]] = ["b": [0.2, 0.1, 0.6, 0.5, 0, 0, 1, 1], "s": [0, log(2), log(5), 1, 9, 2]]
        let found = try boxes(declared, outputs)
        XCTAssertEqual(found.map(\.corners), [Corners(left: 10, top: 10, right: 50, bottom: 30)])
        XCTAssertEqual(found.map(\.index), [1])
        XCTAssertEqual(found[0].score, 0.625, accuracy: 1e-12)
        XCTAssertEqual(try reading(declared).names(of: ["cat", "nothing", "dog"]), ["cat", "dog"])
        XCTAssertEqual(try reading(declared).names(of: ["cat", "dog"]), ["cat", "dog"])
        XCTAssertNil(try reading(declared).names(of: ["cat"]))
    }

    func testOffsetsFromTheCellsOfRows() throws {
        let declared = """
            {"form": "rows", "suppressed": false, "coordinates": \(columns("y", width: 6, count: 4)),
            "coordinates_are": "offset_and_log_size", "unit": "pixel", "order": "xy",
            "scores": \(columns("y", width: 6, first: 5)), "activation": "none", "background": null,
            "objectness": \(columns("y", width: 6, first: 4)), "classes": null,
            "cells": [{"stride": 10, "width": 2, "height": 2}, {"stride": 20, "width": 1, "height": 1}]}
            """
        // Four cells, two in a row, the last of which has a box; then the only cell of the coarser grid. The last row
        // of numbers belongs to no cell.
        let none: [Double] = [0, 0, 0, 0, 0, 1]
        let first: [Double] = [0.5, 0.25, log(2), log(4), 0.5, 0.8]
        let second: [Double] = [0.5, 0.5, 0, log(0.5), 1, 0.9]
        let beyond: [Double] = [0, 0, 0, 0, 1, 1]
        let numbers: [Double] = [none, none, none, first, second, beyond].flatMap { $0 }
        let found = try boxes(declared, ["y": numbers])
        let rounded = found.map { box in
            [box.corners.left, box.corners.top, box.corners.right, box.corners.bottom].map { ($0 * 1e9).rounded() / 1e9 }
        }
        XCTAssertEqual(rounded, [[5, -7.5, 25, 32.5], [0, 5, 20, 15]])
        XCTAssertEqual(found.map(\.score), [0.4, 0.9])
        XCTAssertEqual(found.map(\.index), [0, 0])
    }

    func testDistancesThatAreAMeanOfSeveralFromTheMiddleOfCells() throws {
        let declared = """
            {"form": "grids", "suppressed": false, "offsets": "distances", "origin": 0.5, "grids":
            [{"stride": 10, "width": 1, "anchors": 1, "boxes": "b", "scores": ["c"], "bins": 3}]}
            """
        // Weights of the distances 0, 1 and 2 on each side: 1/3 each; only the last; 1/2 for the first two; 1/4 and 3/4
        // for the last two.
        let far = 60.0
        let logits: [Double] = [7, 7, 7, -far, -far, far, 0, 0, -far, -far, 0, log(3)]
        let found = try boxes(declared, ["b": logits, "c": [0.75]])
        let corners = found.map { box in
            [box.corners.left, box.corners.top, box.corners.right, box.corners.bottom].map { ($0 * 1e9).rounded() / 1e9 }
        }
        XCTAssertEqual(corners, [[-5, -15, 10, 22.5]])
        XCTAssertEqual(found.map(\.score), [0.75])
    }

    func testOffsetsFromGrids() throws {
        func grids(_ offsets: String) -> String {
            """
            {"form": "grids", "suppressed": false, "offsets": "\(offsets)", "grids":
            [{"stride": 10, "width": 2, "anchors": 1, "boxes": "b", "scores": ["c", "o"]}]}
            """
        }
        // Four cells, two in a row; the third one is the first of the second row.
        let none = [0.0, 0, 0, 0]
        let scores = ["c": [0, 0, 0, 0, 0.5, 1.5, 0, 0], "o": [0, 0, 0.25, 0]]
        let distances = ["b": none + none + [0.5, 0.25, 1, 2] + none].merging(scores) { $1 }
        XCTAssertEqual(
            try boxes(grids("distances"), distances),
            [ScoredBox(corners: Corners(left: -5, top: 7.5, right: 10, bottom: 30), score: 0.5, index: 1)])
        let sizes = ["b": none + none + [0.5, 0.25, log(2), log(4)] + none].merging(scores) { $1 }
        let corners = try boxes(grids("centre_and_log_size"), sizes)[0].corners
        for (found, wanted) in zip([corners.left, corners.top, corners.right, corners.bottom], [-5, -7.5, 15, 32.5]) {
            XCTAssertEqual(found, wanted, accuracy: 1e-9)
        }
    }

    func testWhatTheManifestLeavesOpenIsRefused() throws {
        let table = columns("y", width: 5, count: 4)
        let score = columns("y", width: 5, first: 4)
        XCTAssertThrowsError(try reading(rows(coordinates: table, order: "null", scores: score))) {
            XCTAssertEqual($0 as? DetectorError, .unknownOrder)
        }
        XCTAssertThrowsError(try reading("{\"form\": \"polygons\"}")) {
            XCTAssertEqual($0 as? DetectorError, .unknownForm("polygons"))
        }
        let declared = rows(coordinates: table, scores: score)
        XCTAssertThrowsError(try boxes(declared, ["y": [1, 2, 3]])) {
            XCTAssertEqual($0 as? ValueError, .otherSize("y", expected: 5, found: 3))
        }
        XCTAssertThrowsError(try boxes(declared, [:])) {
            XCTAssertEqual($0 as? ValueError, .noSuchFeature("y"))
        }
    }

    func testSuppressionIsByClassAndByOverlap() {
        func box(_ left: Double, _ score: Double, _ index: Int = 0) -> ScoredBox {
            ScoredBox(
                corners: Corners(left: left, top: 0, right: left + 10, bottom: 10), score: score, index: index)
        }
        // A box moved by 2 has an intersection over union of 8/12 with the first box; moved by 5, of 5/15.
        let boxes = [box(5, 0.5), box(2, 0.6), box(0, 0.9), box(0, 0.8, 1), box(0, 0.9)]
        XCTAssertEqual(boxes[2].corners.overlap(boxes[1].corners), 8.0 / 12, accuracy: 1e-12)
        XCTAssertEqual(ScoredBox.suppressed(boxes, overlap: 0.5), [box(0, 0.9), box(0, 0.8, 1), box(5, 0.5)])
        XCTAssertEqual(
            ScoredBox.suppressed(boxes, overlap: 0.7), [box(0, 0.9), box(0, 0.8, 1), box(2, 0.6), box(5, 0.5)])
        XCTAssertEqual(ScoredBox.suppressed(boxes, overlap: 0.3), [box(0, 0.9), box(0, 0.8, 1)])
        XCTAssertEqual(Corners(left: 1, top: 1, right: 1, bottom: 1).overlap(boxes[0].corners), 0)
    }

    private func place(_ resize: String, align: String = "center", fraction: Double = 1) throws -> CGRect {
        let declared = """
            {"scale": 1, "mean": [0], "std": [1], "color": "RGB", "size": [50, 100], "resize": "\(resize)",
            "cropFraction": \(fraction), "padValue": 0, "padAlign": "\(align)", "layout": "NCHW"}
            """
        let preprocessing = try JSONDecoder().decode(ImagePreprocessing.self, from: Data(declared.utf8))
        let corners = Corners(left: 40, top: 10, right: 60, bottom: 20)
        return try preprocessing.inPicture(corners, pictureWidth: 200, pictureHeight: 200)
    }

    func testWhereABoxLiesInThePicture() throws {
        XCTAssertEqual(try place("stretch"), CGRect(x: 80, y: 40, width: 40, height: 40))
        // The picture is 50 pixels wide and high: from 25 to 75, or from 0 to 50.
        XCTAssertEqual(try place("pad"), CGRect(x: 60, y: 40, width: 80, height: 40))
        XCTAssertEqual(try place("pad", align: "start"), CGRect(x: 160, y: 40, width: 40, height: 40))
        // The picture is 100 pixels wide and high, of which 25 are cut off above; if 80 % are kept, 125 and 37.5.
        XCTAssertEqual(try place("crop"), CGRect(x: 80, y: 70, width: 40, height: 20))
        XCTAssertEqual(try place("crop", fraction: 0.8), CGRect(x: 84, y: 76, width: 32, height: 16))
        XCTAssertThrowsError(try place("none"))
    }

    func testABoxBesideThePictureIsNowhere() throws {
        let declared = """
            {"scale": 1, "mean": [0], "std": [1], "color": "RGB", "size": [50, 100], "resize": "pad",
            "cropFraction": 1, "padValue": 0, "padAlign": "center", "layout": "NCHW"}
            """
        let preprocessing = try JSONDecoder().decode(ImagePreprocessing.self, from: Data(declared.utf8))
        let beside = Corners(left: 0, top: 0, right: 20, bottom: 20)
        XCTAssertTrue(try preprocessing.inPicture(beside, pictureWidth: 200, pictureHeight: 200).isNull)
    }
}
