// Package gang compares three ways to submit a gang: by the bare client (AppSpace), by the library
// (LibSpace), and as a job whose tasks name a scheduler of gangs (FrameSpace).
package gang
