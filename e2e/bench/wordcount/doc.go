// Package wordcount is the experiment of the paper on data locality: WordCount on 10, 50 and 100
// nodes, with mappers anywhere, on named nodes, and near their data by the library.
package wordcount
