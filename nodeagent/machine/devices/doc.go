// Package devices finds the devices of a machine: what they are, where they lie, whether
// they may be given out, and how much they are used.
//
// Nothing here loads a vendor's library. What can be given to a container is what the
// Container Device Interface describes; what it is like is read from the kernel's files
// and from nvidia-smi, which is given a time to answer in and killed after it.
package devices
